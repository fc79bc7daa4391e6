#!/bin/bash
# Folders are layers: a file includes only from its own folder and from folders below it. `make lint` checks that from
# the #include lines. Usage: layers.sh [ROOT]; silent, and 0, when all is well.
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit

# From the top down. Operations stand side by side: none includes from another.
layers='
runner/main.c
runner/commands
runner/execute
runner/result
runner/verify
runner/stream
runner/plan
runner/storage
runner/job
runner/base
kernels/matmul kernels/reduce kernels/transpose kernels/scale
kernels/core
'

# shellcheck disable=SC2016 # the program is awk's
find runner kernels -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort | xargs awk -v layers="$layers" '
function room(path) { # the folder that a file is in, or where runner/ itself is meant, what stands in `layers`
    if (path ~ /^runner\/[^\/]*$/) return path ~ /^runner\/execute\./ ? "runner/execute" : path
    sub(/\/[^\/]*$/, "", path)
    return path
}
function resolve(file, name,    parts, n, i, way, depth) {
    sub(/[^\/]*$/, "", file)
    n = split(file name, parts, "/")
    depth = 0
    for (i = 1; i <= n; i++)
        if (parts[i] == "..") depth--
        else if (parts[i] != "." && parts[i] != "") way[++depth] = parts[i]
    name = way[1]
    for (i = 2; i <= depth; i++) name = name "/" way[i]
    return name
}
BEGIN {
    lines = split(layers, line, "\n")
    for (l = 1; l <= lines; l++) {
        rooms = split(line[l], word, " ")
        for (r = 1; r <= rooms; r++) floor[word[r]] = l
    }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    from = room(FILENAME)
    to = room(resolve(FILENAME, quoted[2]))
    place = FILENAME ":" FNR ": includes \"" quoted[2] "\""
    if (from == to) next
    if (!(from in floor)) what = from " is in none of the layers: name it in tests/layers.sh"
    else if (!(to in floor)) what = "which is in none of the layers: name its folder in tests/layers.sh"
    else if (floor[to] > floor[from]) next
    else if (floor[to] == floor[from]) what = "but operations share only what is in kernels/core: move it there"
    else what = "but " from " is below " to ": move what is needed down, or have the caller hand it in"
    print place ", " what
    bad = 1
}
END { exit bad }' || exit 1
