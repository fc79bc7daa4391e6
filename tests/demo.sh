#!/bin/bash
# Runs configs/quickstart.yaml and shows some of its results: `make demo`, or tests/demo.sh PROGRAM.
set -euo pipefail
program=${1:?usage: $0 PROGRAM}
results=quickstart.h5

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

progress=auto
[ -t 2 ] || progress=none
show "$program" run configs/quickstart.yaml --progress "$progress" --overwrite -o "$results"
if command -v h5dump > /dev/null; then
    show h5dump -A 0 -d /outputs/means -s 24 -c 8 "$results"
    show h5dump -A 0 -d /outputs/gram -s 24,24 -c 5,5 "$results"
else
    echo "(h5dump, of Debian's hdf5-tools, would show a piece of it)"
fi
printf '\n%s: all outputs, samples and provenance. Again as a table: %s show %s\n' "$results" "$program" "$results"
