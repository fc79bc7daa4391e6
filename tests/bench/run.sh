#!/bin/bash
# Times the variants beside the vendor's and the limit on this machine's GPU: `make bench`. Runs every job of
# configs/bench but those of families.py, and sums each up. Usage: run.sh PROGRAM [JOB...]; results stay in a folder of their own, which it names.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
program=${1:?usage: run.sh PROGRAM [JOB...]}
shift
jobs=("$@")
[ ${#jobs[@]} -gt 0 ] || mapfile -t jobs < <(grep -L families.py configs/bench/*.yaml)
"$program" devices 2> /dev/null | grep -q '^cuda:' || { echo "bench: no CUDA GPU here" >&2; exit 77; }

folder=$(mktemp -d)
status=0
for job in "${jobs[@]}"; do
    name=$(basename "$job" .yaml)
    # A baseline may refuse what it has no entry for, so a status of 1 does not end it.
    "$program" run "$job" -o "$folder/$name.h5" > "$folder/$name.table"
    code=$?
    [ "$code" -le 1 ] || { echo "bench: $job: exit status $code" >&2; status=1; continue; }
    echo "== $name"
    "$program" show --csv "$folder/$name.h5" | "${PYTHON:-python3}" tests/bench/table.py || status=1
done
echo "results: $folder"
exit "$status"
