#!/bin/sh
# Rewrites the golden files for review: tests/jobs/bad/NAME.expected becomes what `tilerun check NAME.yaml` prints now.
# So do the remarks in tests/jobs/good/FOLDER-NAME.expected on FOLDER/NAME.yaml, and the files of tests/printed/.
# `git diff` shows what changed; a reviewer decides whether it is right.
#     tests/goldens.sh PROGRAM
# Exits 1 if a job is not refused (the program accepts it, prints on stdout or dies), and leaves its file unchanged.
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/.."
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

bad=0
for job in tests/jobs/bad/*.yaml; do
    status=0
    "$program" check "$job" > "$new/out" 2> "$new/err" || status=$?
    expected=${job%.yaml}.expected
    if [ "$status" != 2 ] || [ -s "$new/out" ]; then
        echo "$job: not refused: exit status $status, should be 2, with nothing on stdout; $expected stays" >&2
        bad=1
    elif ! cmp -s "$new/err" "$expected"; then
        cat "$new/err" > "$expected"
    fi
done
for expected in tests/jobs/bad/*.expected; do
    [ -e "${expected%.expected}.yaml" ] || { echo "$expected: has no job beside it: remove it" >&2; bad=1; }
done
for expected in tests/jobs/good/*.expected; do
    job=$(basename "$expected" .expected | tr - /).yaml
    "$program" check "$job" 2> "$expected"
done
TILERUN_GOLDENS=1 TILERUN="$program" "${PYTHON:-python3}" -m pytest -q tests/e2e/test_printed.py || bad=1
exit "$bad"
