#!/bin/bash
# Submits a job file to Slurm: checks it, asks for the time and memory that it is predicted to need, and merges shards.
#
#     submit.sh JOB.yaml [OPTIONS OF tilerun run] [-- OPTIONS OF sbatch]          one process, by run.sbatch
#     submit.sh JOB.yaml --array 6                                    six shards by array.sbatch, then merge.sbatch
#     submit.sh JOB.yaml --array 100%8 --once -- --partition=gpu      a hundred shards, at most eight at a time
#     submit.sh JOB.yaml --set n=4096 -o OUT.h5 -- --time=02:00:00
#
# OPTIONS OF tilerun run, such as --once, --set, --only, -o, --overwrite, --wait and --by, are passed on. OPTIONS OF
# sbatch replace what this script and the .sbatch files ask for; account, partition and qos also hold for the merge.
# Operations that are timed are not divided into panels, because the times would be those of panels: `--by tiles` or
# `--once` divides them. TILERUN names the program and TILERUN_DEVICE the device, here and in the jobs.
# Exit codes: 2: wrong usage, a job with mistakes, or a partition that cannot run it; otherwise the code of sbatch.
set -u
usage="usage: submit.sh JOB.yaml [--array N[%L]] [OPTIONS OF tilerun run] [-- OPTIONS OF sbatch]"
tilerun=${TILERUN:-tilerun}
device=${TILERUN_DEVICE:-cuda}
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Predictions are wrong by up to a factor of 2 (configs/results.md), and by more on a node that others use too.
TIMES=3 EXTRA=600 LONGEST=86400     # seconds: TIMES the prediction, plus EXTRA, but at most LONGEST
TIMES_MEMORY=2 EXTRA_MEMORY=1024    # MiB: of the largest run's working set, plus libraries and verification
MERGE_RATE=100                      # MB/s at which a merge copies outputs on a slow file system

stop() {
    echo "submit.sh: $1" >&2
    exit "${2:-2}"
}

# ---- the command line -----------------------------------------------------------------------------------------------
job='' array='' shards='' output=''
run=()                  # options of `tilerun run`
plan=()                 # those of them that change the prediction
check=()                # those of them that `tilerun check` knows
merge=()                # options of `tilerun merge`
by='' wait='' pin=''    # options of shards, and one of a job that is not divided
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    option=$1 value=''
    shift
    case $option in     # `--option=value` and `--option value` are the same
    --*=*) value=${option#*=} option=${option%%=*} ;;
    --array | --output | --set | --device | --memory | --only | --repeat | --warmup | --verify | --retry | --shard \
        | --by | --wait | --trace | --progress | --pin | -o)
        case ${1---} in --) stop "$option needs a value; $usage" ;; esac
        value=$1
        shift ;;
    -o?*) value=${option#-o} option=-o ;;
    esac
    case $option in
    --array) array=$value ;;
    -o | --output) output=$value ;;
    --device) device=$value ;;
    --set) run+=("$option=$value") plan+=("$option=$value") check+=("$option=$value") ;;
    --memory | --only | --repeat | --warmup | --verify) run+=("$option=$value") plan+=("$option=$value") ;;
    --once) run+=("$option") plan+=("$option") ;;
    --by) by=$value ;;
    --wait) run+=("$option=$value") wait=$value ;;
    --overwrite | --allow-source) run+=("$option") merge+=("$option") ;;
    --trace | --progress | --retry) run+=("$option=$value") ;;
    --pin) run+=("$option=$value") pin=$value ;;
    --verbose | --json) run+=("$option") ;;
    --resume) ;;        # the scripts always resume
    --shard) stop "--shard: the shards of an array are numbered by Slurm; --array N sets how many there are" ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) stop "unknown option $option; options of sbatch follow --; $usage" ;;
    *) [ -z "$job" ] || stop "one job at a time: $job or $option? $usage"; job=$option ;;
    esac
done
[ $# = 0 ] || shift                     # the --
[ -n "$job" ] || stop "$usage"
if [ -n "$array" ]; then
    [[ $array =~ ^([1-9][0-9]{0,6})(%[1-9][0-9]*)?$ ]] ||
        stop "--array needs a number of shards from 1, and may limit how many run at a time (100%8), not '$array'"
    shards=${BASH_REMATCH[1]} limit=${BASH_REMATCH[2]}
    [ -z "$pin" ] || stop "--pin needs all runs of the job in one process: leave --array out"
elif [ -n "$by$wait" ]; then
    stop "--by and --wait are for shards: --array N sets how many there are"
fi
for program in "$tilerun" sbatch sinfo; do
    command -v "$program" > /dev/null || stop "$program is not there; TILERUN=/path/to/tilerun names tilerun"
done

# What the options of sbatch ask for; the last of several options counts, and the merge goes where the shards go.
place=() partition=${SBATCH_PARTITION-} cpus='' memory='' time=''
for ((i = 1; i <= $#; i++)); do
    next=$((i + 1)) option=${!i}
    case $option in
    --*=*) value=${option#*=} option=${option%%=*} whole=("${!i}") ;;
    -[Aaqpct]?*) value=${option:2} option=${option:0:2} whole=("${!i}") ;;
    *) value=${!next-} whole=("${!i}" "$value") ;;
    esac
    case $option in
    -a | --array) stop "the number of shards is --array N[%L], before the --; here ${whole[*]} would change it" ;;
    -p | --partition) partition=$value place+=("${whole[@]}") ;;
    -A | --account | -q | --qos) place+=("${whole[@]}") ;;
    -c | --cpus-per-task) cpus=$value ;;
    -t | --time) time=$value ;;
    --mem | --mem-per-cpu | --mem-per-gpu) memory=$value ;;
    esac
done

# ---- what the cluster has ------------------------------------------------------------------------------------------
script=$scripts/run.sbatch
[ -z "$shards" ] || script=$scripts/array.sbatch
# The value of an option in the script's own #SBATCH lines.
asked() { sed -n "s/^#SBATCH --$1=\([^ ]*\).*/\1/p" "$script" | tail -n 1; }
partition=${partition:-$(asked partition)}
cpus=${cpus:-$(asked cpus-per-task)}

# Of the partition (several: the least of all): the longest time in minutes, MiB of a node, and whether there are GPUs.
if [ -n "$partition" ]; then
    nodes=$(sinfo --noheader --partition="$partition" --format='%R|%l|%m|%G')
else
    nodes=$(sinfo --noheader --format='%P|%l|%m|%G' | grep '^[^|]*\*|')
fi
read -r most_minutes node_mib gpus < <(awk -F '|' '
    function minutes(text,    days, n, part) { # days-hours:minutes:seconds
        if (text !~ /[0-9]/) return 0
        days = 0
        if (split(text, part, "-") == 2) { days = part[1]; text = part[2] }
        n = split(text, part, ":")
        return days * 1440 + (n == 3 ? part[1] * 60 + part[2] : n == 2 ? part[1] : part[1] * 60)
    }
    {
        if ((m = minutes($2)) && (!most || m < most)) most = m
        if (!mib || $3 + 0 < mib) mib = $3 + 0
        if ($4 ~ /gpu/) gpus = 1
    }
    END { print most + 0, mib + 0, gpus + 0 }' <<< "$nodes")

if [[ $device = cuda* ]]; then
    "$tilerun" --version | grep -q '^no CUDA' &&
        stop "$tilerun was built without CUDA: build it with nvcc, or submit with --device cpu"
    [ -z "$nodes" ] || [ "$gpus" = 1 ] ||
        stop "partition ${partition:-(the default)} has no GPU: name another (-- --partition=NAME), or use --device cpu"
fi

# ---- what the job needs ---------------------------------------------------------------------------------------------
"$tilerun" check "${check[@]}" "$job" || stop "$job is not submitted" $?
# Predicts with the cores that the job asks for. `memory: 90%` is a share of the compute node's memory, not of this
# one's.
predict() {
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus} "$tilerun" plan --device "$device" --json "${plan[@]}" "$@" "$job"
}
share=$("$tilerun" plan --resolved "${plan[@]}" "$job" | sed -n 's/^memory: \([0-9.]*\)%$/\1/p')
if [ "$device" = cpu ] && [ -n "$share" ] && [ "$node_mib" -gt 0 ]; then
    plan+=("--memory=$(awk -v share="$share" -v mib="$node_mib" 'BEGIN { printf "%d", share / 100 * mib }')MiB")
fi
predicted=$(predict) || stop "$job is not submitted" $?

# A number in JSON; of several, the largest.
value() { grep -o "\"$1\": [0-9.e+-]*" <<< "$2" | cut -d ' ' -f 2 | sort -g | tail -n 1; }

# Times are those of whole operations, unless nothing is timed more than once.
if [ -z "$by" ]; then
    by=tiles
    [ "$(value repeats_s "$predicted")" = 0 ] || by=runs
fi
# No more shards than an array may have tasks, and than have something to do.
largest=$(scontrol show config | awk '$1 == "MaxArraySize" { print $3 }')
if [ -n "$shards" ] && [ "$shards" -gt "${largest:-$shards}" ]; then
    echo "$largest shards, not $shards: an array of this cluster has no more tasks (MaxArraySize)"
    shards=$largest
fi
wanted=$shards
split=$(predict --by "$by" --shards "${shards:-1}") || stop "$job is not submitted" $?
while idle=$(value idle "$split") && [ "${idle:-0}" -gt 0 ] && [ "${shards:-1}" -gt 1 ]; do
    shards=$((shards - idle))
    split=$(predict --by "$by" --shards "$shards") || stop "$job is not submitted" $?
done
if [ "$shards" != "$wanted" ]; then
    echo "shards: $shards, not $wanted: the job has no work for more (tilerun plan --shards $wanted --by $by)"
    [ "$by" != runs ] ||
        echo "operations are not divided, because the times would be those of panels; --by tiles or --once divides them"
fi

[ -n "$output" ] ||
    output=$(sed -n 's/.*, "output": "\(.*\)", "wall_s.*/\1/p' <<< "$predicted" | sed 's/\\\(["\\]\)/\1/g')
[[ $output = /* ]] || output=$PWD/$output
job=$(realpath "$job")

needs=()
if [[ $device = cuda* ]] && grep -q '^ *{"run".*, "skipped": ' <<< "$predicted"; then
    echo "not all runs can be predicted on this machine (tilerun plan says why): --time and --mem are the script's"
else
    minutes=$(awk -v total="$(value wall_s "$predicted")" -v shard="$(value longest_s "$split")" \
        -v whole="$(value one_process_s "$split")" -v times=$TIMES -v extra=$EXTRA -v longest=$LONGEST 'BEGIN {
            s = times * total * (whole > 0 ? shard / whole : 1) + extra
            printf "%d", ((s < longest ? s : longest) + 59) / 60 }')
    mib=$(awk -v bytes="$(value memory_bytes "$predicted")" -v times=$TIMES_MEMORY -v extra=$EXTRA_MEMORY \
        'BEGIN { printf "%d", times * bytes / 1048576 + extra }')
    [ "$node_mib" = 0 ] || [ "$mib" -le "$node_mib" ] || mib=$node_mib
    if [ "$most_minutes" != 0 ] && [ "$minutes" -gt "$most_minutes" ] && [ -z "$time" ]; then
        echo "a turn ends after $most_minutes minutes, the partition's limit;" \
            "what is not done then goes on in the next turn"
        minutes=$most_minutes
    fi
    if grep -q '"wall_s": null' <<< "$predicted"; then
        echo "the time of some runs is unknown (tilerun plan says which): --time is the script's"
    else
        needs=("--time=$minutes")
    fi
    [ -n "$memory" ] || needs+=("--mem=${mib}M")
fi
[[ $device = cuda* ]] || needs+=(--gpus-per-task=0)

# ---- submit ---------------------------------------------------------------------------------------------------------
[ -z "$shards" ] || needs+=("--array=0-$((shards - 1))$limit")
id=$(sbatch --parsable "${needs[@]}" "$@" "$script" "$job" -o "$output" --device "$device" \
    ${shards:+--by "$by"} "${run[@]}") || exit
id=${id%%;*}                            # of several clusters the name follows
all=$id
asked="${needs[*]} $*"
echo "job $id: ${script##*/} ${asked% }"
if [ -n "$shards" ]; then
    # The merge copies what the job writes, and reads and writes it once.
    minutes=$(awk -v bytes="$(value write_bytes "$split")" -v rate=$MERGE_RATE -v extra=$EXTRA \
        -v most="$most_minutes" 'BEGIN {
        m = (2 * bytes / (rate * 1e6) + extra + 59) / 60
        printf "%d", (most && m > most ? most : m) }')
    last=$(sbatch --parsable "--time=$minutes" "--dependency=afterany:$id" "${place[@]}" \
        "$scripts/merge.sbatch" "$output" "${merge[@]}") || {
        status=$?
        merging="sbatch --dependency=afterany:$id merge.sbatch $(printf %q "$output")"
        stop "job $id will not be merged; this merges it: $merging" "$status"
    }
    all=$id,${last%%;*}
    echo "job ${last%%;*}: merge.sbatch --time=$minutes, when all shards have ended; it names what is missing"
fi
# The log: Slurm names the array's file until its tasks begin, then each task's.
log=$(scontrol show job "$id" | awk '
    match($0, /ArrayTaskId=[0-9]+( |$)/) { task = substr($0, RSTART + 12, RLENGTH - 12); sub(/ /, "", task) }
    sub(/^ *StdOut=/, "") {
        end = task == "" ? 0 : match($0, task "[^0-9/]*$")
        if (end) $0 = substr($0, 1, end - 1) "*" substr($0, end + length(task))
        sub(/4294967294/, "*"); print; exit }')
cat << END
queue:   squeue -j $all
log:     $log
results: tilerun show $(printf %q "$output")
END
