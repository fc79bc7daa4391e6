#!/bin/bash
# Runs the unit tests and a few streamed jobs in a build with sanitizers: `make SANITIZE=1 sanitize` for ASan and UBSan,
# `make SANITIZE=thread sanitize` for TSan. Prints reports, and at the end one line with counts.
# The Makefile gives BUILD, UNITS and SANITIZE.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# Kernels that scatter a program's memory widely leave gcc's TSan no room; it runs where they are told not to.
if [ "$SANITIZE" = thread ] && [ -z "${UNSCATTERED:-}" ] && ! "$BUILD/tilerun" --version > /dev/null 2>&1; then
    UNSCATTERED=1 exec setarch -R tests/sanitize.sh
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache # measured limits: not the user's
export OMP_WAIT_POLICY=passive TILERUN_CASES=20 PLANTED_TRIES=1 HONEST_CASES=50 CUDA_VISIBLE_DEVICES=
export TILERUN=$BUILD/tilerun
if [ "$SANITIZE" = thread ]; then
    # TSan does not see how libgomp's threads wait for each other, and would report every parallel region. So each
    # region gets one thread; the program's own threads are not limited.
    export OMP_THREAD_LIMIT=1
    # The first four tests compute only in parallel regions, which would have one thread. The last takes minutes, and
    # the gzip job below uses the same reading threads.
    left_out=' test_kernels_cpu test_kernels_random test_planted test_verify test_verify_honest test_rawio '
fi

# Runs a command under a name and records it as clean (it exited with 0 and no sanitizer reported) or as reported.
under() {
    local name=$1 log status
    shift
    log=$scratch/$name.log
    ASAN_OPTIONS=log_path=$log UBSAN_OPTIONS=log_path=$log:print_stacktrace=1 TSAN_OPTIONS=log_path=$log \
        timeout 900 "$@" > "$scratch/$name.out" 2>&1
    status=$?
    # Not every line in a log is a report: LeakSanitizer also counts the threads that it could not stop.
    if [ "$status" = 0 ] && ! grep -qsE 'WARNING: Thread|ERROR: |runtime error: ' "$log".*; then
        touch "$scratch/$name.clean"
    else
        touch "$scratch/$name.reported"
        { echo "$name: exit status $status"; cat "$scratch/$name.out"; cat "$log".* 2> /dev/null; } > "$log"
        cat "$log"
    fi
}
export -f under
export scratch

# ---- streamed jobs: every path of a step through the queues, with data in memory, on disk and from other runs --------
cat > "$scratch/streams.yaml" << 'END'
version: 1
device: cpu
sync: false
inputs:
  a: {random: {shape: [200, 300]}}
  b: {random: {shape: [300, 100], seed: 2}}
  long: {random: {shape: [8, 20000], dtype: float16}}
  cube: {random: {shape: [3, 90, 110], dtype: int16, distribution: integer, low: -99, high: 99}}
defaults: {warmup: 1, repeat: 2, verify: full}
operations:
  - {id: product, op: matmul, inputs: [a, b], variants: [cpu, blocked], store: all, compression: gzip, chunks: [32, 32]}
  - {id: split_k, op: matmul, inputs: [long, long], transpose_b: true}
  - {id: total, op: reduce, inputs: [product], operator: sum, axis: all}
  - {id: columns, op: reduce, inputs: [a], operator: argmax, axis: 0}
  - {id: turned, op: transpose, inputs: [cube], compression: gzip, shuffle: true, chunks: [1, 32, 32]}
  - {id: scaled, op: scale, inputs: [turned], alpha: 2}
END
cat > "$scratch/again.yaml" << 'END'
version: 1
device: cpu
inputs:
  product: {file: tiles.h5, dataset: outputs/product}
  turned: {file: tiles.h5, dataset: outputs/turned}
  total: {file: tiles.h5, dataset: outputs/total}
defaults: {warmup: 0, repeat: 1}
operations:
  - {id: gram, op: matmul, inputs: [product, product], transpose_b: true}
  - {id: back, op: transpose, inputs: [turned]}
  - {id: twice, op: map, inputs: [total], expression: 2 * total}
END

streams() {
    local run=("$TILERUN" run --progress plain)
    under tiles "${run[@]}" "$scratch/streams.yaml" --memory 64KiB --trace "$scratch/trace" -o "$scratch/tiles.h5"
    under whole "${run[@]}" "$scratch/streams.yaml" --memory 1GiB -o "$scratch/whole.h5"
    under gzip "${run[@]}" "$scratch/again.yaml" --memory 64KiB -o "$scratch/again.h5"
    under one_tile "${run[@]}" "$scratch/again.yaml" -o "$scratch/again.h5" --overwrite
    # A signal at a random moment, then the rest of the job.
    # shellcheck disable=SC2016 # for the inner shell to expand
    under signal bash -c 'timeout -s TERM "0.$((RANDOM % 9 + 1))" "$@"; [[ $? = @(0|124) ]]' signal \
        "${run[@]}" "$scratch/streams.yaml" --memory 64KiB -o "$scratch/cut.h5"
    under resume "${run[@]}" "$scratch/streams.yaml" --memory 64KiB -o "$scratch/cut.h5" --resume
}

# ---- unit tests: as many at a time as there are cores -------------------------------------------------------------------
for unit in ${UNITS:?are the unit tests, which the Makefile names}; do
    [[ ${left_out:-} = *" ${unit##*/} "* ]] || printf '%s\0' "$unit"
done > "$scratch/units"
streams
# shellcheck disable=SC2016 # for the inner shell to expand
xargs -0 -n 1 -P "$(nproc)" bash -c 'under "${1##*/}" "$1"' sanitize < "$scratch/units"

count() { find "$scratch" -name "*.$1" | wc -l; }
echo "sanitize: $(count clean) clean, $(count reported) with reports"
[ "$(count reported)" = 0 ]
