#!/bin/sh
# Rewrites the files made from the table of keys (runner/job/job_keys.c): configs/job.schema.json, and configs/README.md
# between its two markers.
#     tests/generate.sh PROGRAM            rewrites them
#     tests/generate.sh PROGRAM --check    exits 1 if they differ from what the program prints
set -eu
program=$(realpath "$1")
check=${2:-}
cd "$(dirname "$0")/../configs"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

"$program" --print-schema > "$new/job.schema.json"
{
    sed '/^<!-- generated: begin -->$/q' README.md
    "$program" --print-reference
    sed -n '/^<!-- generated: end -->$/,$p' README.md
} > "$new/README.md"

for file in job.schema.json README.md; do
    if cmp -s "$new/$file" "$file"; then
        continue
    elif [ "$check" = --check ]; then
        echo "configs/$file is not what $1 prints: run 'make generated'" >&2
        diff -u "$file" "$new/$file" >&2 || true
        exit 1
    else
        cat "$new/$file" > "$file"
    fi
done
