#!/bin/bash
# A real Slurm on this machine alone: one controller, one node, its own munge, everything under one directory.
#
#     tests/slurm/cluster.sh up DIR       needs root and Debian's slurmctld slurmd munge slurm-client
#     export SLURM_CONF=DIR/slurm.conf    for sbatch, scontrol...
#     tests/slurm/cluster.sh down DIR     ends its jobs and its daemons; DIR stays, with their logs
#
# Nothing outside DIR is used or changed: the machine's own Slurm or munge, where it has one, does not notice.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
[ $# = 2 ] || { echo "usage: $0 up|down DIR" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
export SLURM_CONF=$dir/slurm.conf

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
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
MailProg=/bin/true
ReturnToService=2

# Works in a container: no cgroups, no systemd.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none

# The node claims more than the machine may have, since nothing is enforced; its GPU is /dev/null.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=node0 NodeHostname=$host NodeAddr=127.0.0.1 CPUs=4 CoresPerSocket=4 RealMemory=65536 Gres=gpu:1 State=UNKNOWN
PartitionName=test Nodes=node0 Default=YES MaxTime=02:00:00

# Answers within a second.
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
KillWait=5
END
    echo "NodeName=node0 Name=gpu File=/dev/null" > "$dir/gres.conf"
    # munge wants a socket that all may reach and a key that nobody else may read.
    chmod 755 "$dir"
    mkdir -p "$dir/state" "$dir/spool"
    (umask 077 && head -c 1024 /dev/urandom > "$dir/munge.key")
}

up() {
    configure
    munged --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munge.pid" \
        --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" --num-threads=1
    slurmctld
    slurmd -N node0
    for _ in $(seq 150); do
        [ "$(sinfo -h -o %t 2> /dev/null)" != idle ] || return 0
        sleep 0.1
    done
    echo "the node did not become idle:" >&2
    tail -n 20 "$dir/slurmctld.log" "$dir/slurmd.log" >&2
    return 1
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
    stop "$dir/slurmd.pid"
    stop "$dir/slurmctld.pid"
    stop "$dir/munge.pid"
}

case $1 in
up) up || { down; exit 1; } ;;
down) down ;;
*) echo "usage: $0 up|down DIR" >&2; exit 2 ;;
esac
