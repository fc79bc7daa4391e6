#!/bin/bash
# Fuzzes what reads strangers' bytes, each target of tests/fuzz for SECONDS, with clang's libFuzzer under ASan and UBSan:
# job files, HDF5 inputs, results files, command lines. Prints a line a target; what it finds stays in BUILD/found.
# What crashes inside of HDF5 is no finding: runner/storage/untrusted/fence.h makes it a refusal. Nor is one large malloc: HDF5 asks
# for as many bytes as a header claims to have, before it reads them; what is in memory is limited all the same. The
# Makefile gives BUILD, SECONDS_EACH and LIBS; TARGETS="job input" runs some, FORKS=4 four processes of each.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$BUILD/found" "$BUILD/seeds"
printf 'leak:libhdf5\n' > "$BUILD/leaks"
printf 'interceptor_via_lib:libhdf5\n' > "$BUILD/reads"
# A malloc beyond 512 MiB fails, as it does under the limit that the program sets itself for texts (h5type.c), which a
# sanitizer's own memory rules out here: else HDF5 fills what a text of 2 GB claims, and that counts as a finding.
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=512:verify_asan_link_order=0:suppressions=$PWD/$BUILD/reads
export LSAN_OPTIONS=suppressions=$PWD/$BUILD/leaks:print_suppressions=0
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
"$PYTHON" tests/fuzz/seeds.py "$TILERUN" "$BUILD/seeds" || exit 1
folder=$PWD/$BUILD
failed=0
for target in ${TARGETS:-job input results command}; do
    mkdir -p "$folder/corpus/$target"
    rm -f "$folder/found/$target-"*
    "$BUILD/fuzz_$target" -fork="${FORKS:-1}" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_total_time="$SECONDS_EACH" \
        -timeout=60 -report_slow_units=60 -rss_limit_mb=4096 -malloc_limit_mb=65536 -max_len=40000 -dict="$folder/seeds/$target.dict" \
        -artifact_prefix="$folder/found/$target-" \
        "$folder/corpus/$target" "$folder/seeds/$target" > "$folder/$target.log" 2>&1
    runs=$(sed -n 's/^#\([0-9]*\): cov: \([0-9]*\).*/\1 runs, \2 places reached/p' "$folder/$target.log" | tail -n 1)
    count=$(find "$folder/found" -name "$target-*" -size +0 | wc -l)
    echo "fuzz $target: ${runs:-0 runs}, $count found"
    [ "$count" = 0 ] || failed=1
done
rm -rf /dev/shm/tilerun-fuzz-*
exit $failed
