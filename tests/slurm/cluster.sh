#!/bin/bash
# A real Slurm on this machine alone: one controller, three nodes, its own munge, everything under one directory.
#
#     tests/slurm/cluster.sh up DIR           needs root and Debian's slurmctld slurmd munge slurm-client
#     export SLURM_CONF=DIR/slurm.conf        for sbatch, scontrol...
#     tests/slurm/cluster.sh lose DIR NODE    a node dies with all that runs there; Slurm is told, as it is soon by itself
#     tests/slurm/cluster.sh mend DIR NODE    it is back
#     tests/slurm/cluster.sh down DIR         ends its jobs and its daemons; DIR stays, with their logs
#
# Nothing outside DIR is used or changed: the machine's own Slurm or munge, where it has one, does not notice.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
usage="usage: $0 up|down DIR, $0 lose|mend DIR NODE"
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
export SLURM_CONF=$dir/slurm.conf
nodes=(node0 node1 node2)     # node2 has no GPU

# A port that nobody listens on.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do :; done
    echo "$port"
}

configure() {
    local host
    host=$(hostname -s)         # Slurm looks itself up under this name
    cat > "$SLURM_CONF" << END
ClusterName=tilerun-test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/%n.log
MailProg=/bin/true
ReturnToService=2

# Works in a container: no cgroups, no systemd.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none

# Each node claims more than the machine may have, since nothing is enforced.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=DEFAULT CPUs=8 CoresPerSocket=8 RealMemory=65536
$(for node in "${nodes[@]}"; do
    gpus=Gres=gpu:2
    [ "$node" != node2 ] || gpus=''
    echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) $gpus"
done)
PartitionName=test Nodes=node[0-1] Default=YES MaxTime=02:00:00
PartitionName=other Nodes=node[0-1]
PartitionName=short Nodes=node[0-1] MaxTime=00:05:00
PartitionName=cpu Nodes=node2

# Answers within a second.
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
KillWait=5
END
    # A GPU is a device file, else Slurm does not tell jobs which is theirs.
    printf 'NodeName=%s Name=gpu File=%s\n' "${nodes[0]}" /dev/null "${nodes[0]}" /dev/zero \
        "${nodes[1]}" /dev/null "${nodes[1]}" /dev/zero > "$dir/gres.conf"
    # munge wants a socket that all may reach and a key that nobody else may read.
    chmod 755 "$dir"
    mkdir -p "$dir/state" "${nodes[@]/#/$dir/spool-}"
    (umask 077 && head -c 1024 /dev/urandom > "$dir/munge.key")
}

up() {
    configure
    munged --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munge.pid" \
        --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" --num-threads=1
    slurmctld
    for node in "${nodes[@]}"; do slurmd -N "$node"; done
    await_idle "${nodes[@]}"
}

# Waits until nodes are ready for jobs.
await_idle() {
    local states
    for _ in $(seq 3000); do
        states=$(sinfo -h -n "${*// /,}" -o %t 2> /dev/null) || states=''
        [ "$states" != idle ] || return 0
        sleep 0.1
    done
    echo "$* did not become idle:" >&2
    tail -n 20 "$dir"/*.log >&2
    return 1
}

# The processes of the jobs on a node; those that are dead but not yet collected have no variables any more.
jobs_on() {
    local environments
    mapfile -t environments < <(grep -lzx "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2> /dev/null)
    grep -lzx "SLURM_CONF=$SLURM_CONF" "${environments[@]}" /dev/null 2> /dev/null | cut -d / -f 3
}

# Kills at one blow a node's daemon and its jobs, with the processes that oversee those, and waits until they are gone.
lose() {
    local jobs overseers
    jobs=$(jobs_on "$1") || true
    overseers=$(echo "$jobs" | xargs -r ps -o ppid= | xargs -r ps -o pid=,comm= | sed -n 's/ *\([0-9]*\) slurmstepd.*/\1/p')
    # shellcheck disable=SC2086 # several numbers
    kill -KILL "$(cat "$dir/$1.pid")" $overseers $jobs || true
    rm "$dir/$1.pid"
    while [ -n "$(jobs_on "$1")" ]; do sleep 0.1; done
    scontrol update NodeName="$1" State=DOWN Reason=lost
}

mend() {
    slurmd -N "$1"
    await_idle "$1"
}

# Ends a daemon by its pid file and waits until it is gone.
stop() {
    local pid
    pid=$(cat "$1" 2> /dev/null) || return 0
    kill "$pid" 2> /dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2> /dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$pid"
}

down() {
    if [ -s "$dir/slurmctld.pid" ] && timeout 10 scancel --user=root; then
        for _ in $(seq 100); do
            [ -n "$(timeout 10 squeue -h)" ] || break
            sleep 0.1
        done
    fi
    for node in "${nodes[@]}"; do stop "$dir/$node.pid"; done
    # It would save its state for seven seconds.
    [ ! -s "$dir/slurmctld.pid" ] || kill -KILL "$(cat "$dir/slurmctld.pid")" || true
    stop "$dir/munge.pid"
}

case $1,$# in
up,2) up || { down; exit 1; } ;;
down,2) down ;;
lose,3 | mend,3) "$1" "$3" ;;
*) echo "$usage" >&2; exit 2 ;;
esac
