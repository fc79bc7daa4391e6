#!/bin/bash
# Submits a job file: checks it, asks for the time and memory that it is predicted to need, and has shards merged.
#
#     submit.sh JOB.yaml [-- OPTIONS OF sbatch]               by run.sbatch, on one GPU
#     submit.sh JOB.yaml --array 6 [-- OPTIONS OF sbatch]     six shards by array.sbatch, then merge.sbatch
#     submit.sh JOB.yaml --array 100 -- --array=0-99%8 --partition=gpu --time=02:00:00
#
# OPTIONS OF sbatch win over what is filled in here and over what the scripts say; account, partition and qos among them
# hold for merge.sbatch as well. TILERUN names the program, TILERUN_DEVICE the device, here and in the jobs.
# Exit codes: 2, wrong usage or a job with mistakes; else sbatch's own.
set -u
usage="usage: submit.sh JOB.yaml [--array N] [-- OPTIONS OF sbatch]"
tilerun=${TILERUN:-tilerun}
device=${TILERUN_DEVICE:-cuda}
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Predictions are wrong by a factor of 2 (configs/results.md), on a node that others use by more. What is not done in
# LONGEST goes on in the job's next turn.
TIMES=3 EXTRA=600 LONGEST=86400         # seconds: TIMES the prediction and EXTRA
TIMES_MEMORY=2 EXTRA_MEMORY=1024        # MiB: of the largest run's working set; libraries, verification, the page cache

stop() {
    echo "submit.sh: $1" >&2
    exit "${2:-2}"
}

# ---- the command line -----------------------------------------------------------------------------------------------
job='' shards=''
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    --array) [ $# -ge 2 ] || stop "--array needs a number of shards; $usage"; shards=$2; shift ;;
    --array=*) shards=${1#*=} ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) stop "unknown option $1; those of sbatch come after --; $usage" ;;
    *) [ -z "$job" ] || stop "one job at a time: $job or $1? $usage"; job=$1 ;;
    esac
    shift
done
[ $# = 0 ] || shift                     # the --
[ -n "$job" ] || stop "$usage"
[[ -z $shards || $shards =~ ^[1-9][0-9]{0,4}$ ]] || stop "--array needs a number of shards, from 1, not '$shards'"
for program in "$tilerun" sbatch; do
    command -v "$program" > /dev/null || stop "$program is not there; TILERUN=/path/to/tilerun names tilerun"
done

# The merge goes where the shards go.
place=()
for ((i = 1; i <= $#; i++)); do
    next=$((i + 1))
    case ${!i} in
    --account=* | --partition=* | --qos=* | -[Apq]?*) place+=("${!i}") ;;
    --account | --partition | --qos | -[Apq]) place+=("${!i}" "${!next-}") ;;
    esac
done

# ---- what the job needs ---------------------------------------------------------------------------------------------
"$tilerun" check "$job" || stop "$job is not submitted" $?
plan=$("$tilerun" plan --device "$device" --json "$job") || stop "$job is not submitted" $?
split=$("$tilerun" plan --device "$device" --json --shards "${shards:-1}" "$job") || stop "$job is not submitted" $?

# A number in JSON; of several, the largest.
value() { grep -o "\"$1\": [0-9.e+-]*" <<< "$2" | cut -d ' ' -f 2 | sort -g | tail -n 1; }

output=$(sed -n 's/.*, "output": "\(.*\)", "total_s.*/\1/p' <<< "$plan" | sed 's/\\\(["\\]\)/\1/g')
[[ $output = /* ]] || output=$PWD/$output
job=$(realpath "$job")

needs=()
if [ "$device" != cpu ] && grep -q '^ *{"run".*, "skipped": ' <<< "$plan"; then
    echo "not all runs can be predicted on this machine (tilerun plan says why): --time and --mem are the script's"
else
    seconds=$(awk -v total="$(value total_s "$plan")" -v shard="$(value longest_s "$split")" \
        -v whole="$(value one_process_s "$split")" -v times=$TIMES -v extra=$EXTRA -v longest=$LONGEST \
        'BEGIN { s = times * total * (whole > 0 ? shard / whole : 1) + extra; printf "%d", s < longest ? s : longest }')
    mib=$(awk -v bytes="$(value memory_bytes "$plan")" -v times=$TIMES_MEMORY -v extra=$EXTRA_MEMORY \
        'BEGIN { printf "%d", times * bytes / 1048576 + extra }')
    needs=("--time=$(((seconds + 59) / 60))" "--mem=${mib}M")
fi

# ---- submit ---------------------------------------------------------------------------------------------------------
script=run.sbatch
idle=$(value idle "$split")
[ "$idle" = 0 ] || echo "$idle of $shards shards will have nothing to do (tilerun plan --shards $shards says why)"
[ -z "$shards" ] || script=array.sbatch needs+=("--array=0-$((shards - 1))")
id=$(sbatch --parsable "${needs[@]}" "$@" "$scripts/$script" "$job" -o "$output") || exit
id=${id%%;*}                            # of several clusters the name follows
all=$id
asked="${needs[*]} $*"
echo "job $id: $script ${asked% }"
if [ -n "$shards" ]; then
    merge=$(sbatch --parsable "--dependency=afterok:$id" "${place[@]}" "$scripts/merge.sbatch" "$output") || {
        status=$?
        stop "job $id will not be merged; do that by: sbatch --dependency=afterok:$id merge.sbatch $output" "$status"
    }
    all=$id,${merge%%;*}
    echo "job ${merge%%;*}: merge.sbatch, when all shards have ended well"
fi
# Where a shard's words go: Slurm names the array's file until its tasks begin, then each task's.
words=$(scontrol show job "$id" | awk '
    match($0, /ArrayTaskId=[0-9]+( |$)/) { task = substr($0, RSTART + 12, RLENGTH - 12); sub(/ /, "", task) }
    sub(/^ *StdOut=/, "") {
        end = task == "" ? 0 : match($0, task "[^0-9/]*$")
        if (end) $0 = substr($0, 1, end - 1) "*" substr($0, end + length(task))
        sub(/4294967294/, "*"); print; exit }')
cat << END
queue:   squeue -j $all
words:   $words
results: tilerun show $output
END
