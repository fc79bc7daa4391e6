# shellcheck shell=bash
# turns.sh - splits a job at its time limit into turns. The scripts in this folder read it; nobody calls it.
#
# Some time before the limit (--signal=B:USR2@120) Slurm sends USR2 to the batch shell, which passes it on. tilerun
# keeps the runs that it has finished beside its output and exits with 75; the job goes back into the queue, and its
# next turn takes up where this one stopped (--resume).
#
# All scripts share this file: copy the folder, not one script. sbatch runs a copy of a script from its spool folder, but
# Slurm knows where the script was (`Command` of `scontrol show job`), and there the scripts look for this file.

turns=${TILERUN_TURNS:-50}      # the most turns of a job

# A job that a task of an array has submitted inherits that array's variables, and Slurm leaves them as they are.
case $(scontrol show job "$SLURM_JOB_ID") in
*ArrayJobId=*) ;;
*JobId=*) unset "${!SLURM_ARRAY_@}" ;;
esac

# `scontrol requeue` of a plain number requeues a whole array where that is the number of its last task too.
this_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
this_job=${this_job:-$SLURM_JOB_ID}

# Since Slurm 22.05 srun does not take over --cpus-per-task from sbatch by itself.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}

# The results name the log of a shard that is missing; srun's tasks do not know it.
TILERUN_LOG=$(readlink "/proc/$$/fd/2") || TILERUN_LOG=''
export TILERUN_LOG

signal='' signals=0 step='' results=''
# shellcheck disable=SC2317 # the traps call it
pass_on() {
    signal=$1 signals=$((signals + 1))
    [ -z "$step" ] || kill -s "$signal" "$step" 2> /dev/null
}
trap 'pass_on USR1' USR1
trap 'pass_on USR2' USR2
trap 'pass_on TERM' TERM

# The results file of JOB [OPTIONS OF tilerun run], "" if it is unknown. Usage: results_of TILERUN JOB OPTIONS...
results_of() {
    local word before='' found='' tilerun=$1
    shift
    for word; do
        case $before,$word in
        -o,* | --output,*) found=$word ;;
        *,--output=*) found=${word#*=} ;;
        *,-o?*) found=${word#-o} ;;
        esac
        before=$word
    done
    [ -n "$found" ] || found=$("$tilerun" plan --json "$1" | sed -n 's/.*, "output": "\(.*\)", "wall_s.*/\1/p' |
        sed 's/\\\(["\\]\)/\1/g')
    echo "$found"
}

# Lists what all shards of the results file $results have finished and keep beside it.
finished() { find "$results.parts" -name '*.h5' ! -name 'shard*.h5' 2> /dev/null | sort; }

# Puts the job back into the queue, unless the turn that ends has brought it no further.
next_turn() {
    local turn=$((${SLURM_RESTART_COUNT:-0} + 1)) why=''
    if [ "$turn" -gt "$turns" ]; then
        why="this was turn $turn, and TILERUN_TURNS allows $turns; submit the job again to continue"
    elif [ -n "$signal" ] && [ -n "$results" ] && [ "$(finished)" = "$finished_before" ]; then
        why="no run was finished in this turn, and another turn would repeat it; a longer --time helps, or less work in a"
        why+=" run: fewer repeats, --once, or panels in shards (--array N --by tiles)"
    fi
    if [ -n "$why" ]; then
        echo "$SLURM_JOB_NAME: interrupted in turn $turn, not requeued: $why"
    else
        echo "$SLURM_JOB_NAME: interrupted in turn $turn; back into the queue"
        scontrol requeue "$this_job"
    fi
}

# Runs a command to its end and returns its status. An interrupted command puts the job back into the queue. Usage:
# in_turns RESULTS COMMAND...
in_turns() {
    local status='' seen requeue=''
    results=$1
    shift
    : "${finished_before=$(finished)}"
    # Shells act on a signal only between commands: the command runs in the background, and the shell waits for it.
    "$@" &
    step=$!
    [ -z "$signal" ] || kill -s "$signal" "$step" 2> /dev/null      # it came while the command was being started
    # A signal ends `wait` early, with a status of its own: wait until none has come in between.
    while [ -z "$status" ]; do
        seen=$signals
        wait "$step"
        status=$?
        [ "$seen" = "$signals" ] || status=''
    done
    step=''
    # scancel ends the steps first, and this shell's TERM comes a moment later on a busy node.
    [ "$signal,$status" != ,75 ] || { sleep 5 & wait $!; }
    # TERM is Slurm ending the job (scancel, preemption, the limit itself): what comes next is Slurm's to say. The other
    # signals are warnings, and one that came before tilerun listened has killed the command with 128 + its number.
    case $signal,$status in
    TERM,*) ;;
    *,75 | USR1,138 | USR2,140) requeue=yes ;;
    esac
    [ -z "$requeue" ] || next_turn
    return "$status"
}
