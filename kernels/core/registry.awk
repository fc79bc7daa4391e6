# Compares registry.def with the kernels' files, and prints a C file with the descriptors of the CUDA variants that are
# not compiled, so that every build knows the names, types and parameters of all variants. The descriptors lack the
# members that are functions or need CUDA C. `not_compiled` lists the .cu files that are not compiled. `make` runs this.
BEGIN {
    registry = ARGV[1]
    for (split(not_compiled, file, " "); length(file[++i]);) left_out[file[i]]
    print "/* Made by kernels/core/registry.awk. */\n#include \"kernel.h\""
}
function complain(what) {
    print FILENAME ": " what | "cat >&2"
    bad = 1
}
FILENAME == registry {
    if (/^(CPU|CUDA)\(/) { split($0, word, "[()]"); line[word[2]] = word[1] "(" word[2] ")" }
    next
}
/^(KERNEL\(|const struct kernel )[A-Za-z0-9_]/ {
    name = $0
    sub(/^(KERNEL\(|const struct kernel )/, "", name)
    sub(/[^A-Za-z0-9_].*/, "", name)
    wanted = (FILENAME ~ /\.cu$/ ? "CUDA(" : "CPU(") name ")"
    if (line[name] == "") complain("add " wanted " to " registry)
    else if (line[name] != wanted) complain("change " line[name] " in " registry " to " wanted)
    if (FILENAME in left_out) { absent[name]; print "\nconst struct kernel " name " = {"; inside = 1; next }
}
/^DECLARE_KERNEL\(/ && FILENAME ~ /\.cu$/ && !(FILENAME in left_out) {
    split($0, word, "[()]")
    needs[word[2]] = FILENAME
}
inside && /^    \./ { skipped = /^    \.(edges|traffic|traffic_bytes|way|workspace|missing|library|refuses|seconds|launch) =/ }
inside && /^};/ { skipped = 0 }
inside && !skipped { print }
/^};/ { inside = 0 }
END {
    for (name in needs)
        if (name in absent) { FILENAME = needs[name]; complain("needs " name ": add it to VARIANTS") }
    exit bad
}
