#!/bin/bash
# Runs the host code under valgrind: the unit tests, a whole job, and checks of good and bad job files. `make valgrind`
# builds and runs it; it takes minutes, so it is not part of `make test`. Prints reports, and at the end one line.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2 TILERUN_CASES=20 CUDA_VISIBLE_DEVICES=
clean=0 reported=0

# valgrind runs one thread at a time, so threads that spin would starve the others.
under() {
    local name=$1
    shift
    timeout 900 valgrind -q --fair-sched=yes --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite \
        --error-exitcode=99 --log-file="$scratch/log" "$@" > "$scratch/out" 2>&1
    local status=$?
    if [ "$status" = 99 ] || [ "$status" = 124 ] || [ -s "$scratch/log" ]; then
        reported=$((reported + 1))
        echo "$name: exit status $status"
        cat "$scratch/log"
    else
        clean=$((clean + 1))
    fi
}

for unit in ${UNITS:?are the unit tests, which the Makefile names}; do under "${unit##*/}" "$unit"; done
under quickstart "$build/tilerun" run configs/quickstart.yaml --device cpu --set repeat=1 --progress none -o "$scratch/q.h5"
for job in tests/jobs/good/*.yaml tests/jobs/bad/*.yaml; do under "$job" "$build/tilerun" check "$job"; done

echo "valgrind: $clean clean, $reported with reports"
[ "$reported" = 0 ]
