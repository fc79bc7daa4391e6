# embed.awk - turns text files into C: an array of their names and texts (embedded.h). kernels/core/kernel.h follows
# tilerun.h.in and continues it, up to its section "a variant".
function put(line) {
    gsub(/\\/, "\\\\", line)
    gsub(/"/, "\\\"", line)
    print "        \"" line "\\n\""
}
BEGIN { print "#include \"embedded.h\"\nconst struct embedded embedded[] = {" }
FNR == 1 {
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.in$/, "", name)
    header = name == "kernel.h"
    skipping = 0
    if (!header) print (NR > 1 ? "    },\n" : "") "    {\"" name "\","
}
header && /^\/\* ---- a variant -/ {
    skipping = 1
    put("#ifdef __cplusplus")
    put("}")
    put("#endif")
    put("#endif")
}
# Functions of tilerun about data types are left out: a kernel in a job cannot call them.
header && /^const char \*dtype_name/ { skipping = 1 }
header && /^\/\* ---- operations -/ { skipping = 0 }
!skipping { put($0) }
END { print "    },\n    {0},\n};" }
