#!/bin/bash
# Folders are layers: a file includes only from its own folder and from folders below it. `make lint` checks that from
# the #include lines. Usage: layers.sh [ROOT]. Prints nothing and exits 0 if no include breaks the rule, and if the map,
# runner/README.md, names functions that exist.
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit

# From the top down. Each operation is a folder with its ladder, and one above it with tuned variants; operations include
# nothing from each other.
layers='
runner/main.c
runner/commands
runner/execute
runner/report
runner/compare
runner/show
runner/store
runner/record
runner/verify
runner/limits
runner/stream
runner/divide
runner/plan
runner/storage
runner/storage/raw
runner/storage/untrusted
runner/storage/h5
runner/storage/elements
runner/compile
runner/job
runner/job/expression
runner/base
kernels/*/tuned
kernels/*
kernels/core
'

# shellcheck disable=SC2016 # the program is awk's
find runner kernels -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort | xargs awk -v layers="$layers" '
function room(path) { # the folder that a file is in; of runner/ itself the file
    if (path ~ /^runner\/[^\/]*$/) return path
    sub(/\/[^\/]*$/, "", path)
    return path
}
function level(folder) { # 0: in none of the layers
    if (folder in floor) return floor[folder]
    if (folder ~ /^kernels\/[^\/]+\/tuned$/) return floor["kernels/*/tuned"]
    return folder ~ /^kernels\/[^\/]+$/ ? floor["kernels/*"] : 0
}
function operation(folder) { # the operation that a folder belongs to; "": none
    if (folder !~ /^kernels\// || folder ~ /^kernels\/core/) return ""
    split(folder, word, "/")
    return word[2]
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
    for (l = 1; l <= lines; l++) floor[line[l]] = l
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    from = room(FILENAME)
    to = room(resolve(FILENAME, quoted[2]))
    place = FILENAME ":" FNR ": includes \"" quoted[2] "\""
    if (from == to) next
    if (!level(from)) what = from " is in none of the layers: name it in tests/layers.sh"
    else if (!level(to)) what = "which is in none of the layers: name its folder in tests/layers.sh"
    else if (operation(from) && operation(to) && operation(from) != operation(to))
        what = "but operations share only what is in kernels/core: move it there"
    else if (from ~ /^runner\/(storage|compile)/ && to ~ /^runner\/(compile$|job)/)
        what = "but " from " reads no job: base/job_input.h has what it needs of one"
    else if (level(to) > level(from)) next
    else what = "but " from " is below " to ": move what is needed down, or have the caller hand it in"
    print place ", " what
    bad = 1
}
END { exit bad }' || exit 1

status=0
# shellcheck disable=SC2016 # the backticks are the document's
for name in $(grep -oE '`[a-z0-9]+(_[a-z0-9]+)+`' runner/README.md 2>/dev/null | tr -d '`' | sort -u); do
    grep -rqw "$name" runner kernels --include='*.[ch]' && continue
    echo "runner/README.md: no function or member is called $name"
    status=1
done
exit $status
