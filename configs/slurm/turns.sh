# shellcheck shell=bash
# turns.sh - how a job lives with a time limit: the scripts beside this one read it; nobody calls it.
#
# Some time before the limit (--signal=B:USR2@120) Slurm sends USR2 to the batch shell, which passes it on. tilerun
# keeps the runs that it has finished beside its output and exits with 75; the job goes back into the queue, and its
# next turn takes up where this one stopped (--resume).
#
# It is a file of its own so that what is hard to get right is there once; copy the folder, not one script. sbatch runs
# a copy of a script from its spool folder, but Slurm knows where the script was (`Command` of `scontrol show job`), and
# there the scripts look for this file.

turns=${TILERUN_TURNS:-50}      # a job that gets nowhere in its time limit must not be requeued for ever

# `scontrol requeue` of a plain number requeues a whole array where that is the number of its last task too.
this_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
this_job=${this_job:-$SLURM_JOB_ID}

# Since Slurm 22.05 srun does not take over --cpus-per-task from sbatch by itself.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}

signal='' signals=0 step=''
# shellcheck disable=SC2317 # the traps call it
pass_on() {
    signal=$1 signals=$((signals + 1))
    [ -z "$step" ] || kill -s "$signal" "$step" 2> /dev/null
}
trap 'pass_on USR1' USR1
trap 'pass_on USR2' USR2
trap 'pass_on TERM' TERM

# Runs a command to its end and returns its status; the job is back in the queue if that was an interruption.
in_turns() {
    local status='' seen requeue=''
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
    # TERM is Slurm ending the job (scancel, preemption, the limit itself): what comes next is Slurm's to say. The other
    # signals are warnings, and one that came before tilerun listened has killed the command with 128 + its number.
    case $signal,$status in
    TERM,*) ;;
    *,75 | USR1,138 | USR2,140) requeue=yes ;;
    esac
    if [ -n "$requeue" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "$turns" ]; then
        echo "$SLURM_JOB_NAME: interrupted in turn $((${SLURM_RESTART_COUNT:-0} + 1)); back into the queue"
        scontrol requeue "$this_job"
    fi
    return "$status"
}
