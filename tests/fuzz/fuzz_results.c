/* fuzz_results.c - any bytes as a results file: show, compare, report, merge and reproduce say what is in it, or
 * refuse. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_begin();
    fuzz_write("a.h5", data, size);
    fuzz_command(&command_show, (char *[]){"show", "--json", "a.h5", NULL});
    fuzz_command(&command_show, (char *[]){"show", "a.h5", NULL});
    fuzz_command(&command_compare, (char *[]){"compare", "a.h5", "a.h5", NULL});
    fuzz_command(&command_report, (char *[]){"report", "a.h5", "-o", "a.html", NULL});
    fuzz_command(&command_merge, (char *[]){"merge", "a.h5", NULL});
    unlink("a.html");
    fuzz_end();
    return 0;
}
