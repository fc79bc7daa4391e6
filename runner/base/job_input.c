/* job_input.c - writes the `select` of an input as text. */
#include "job_input.h"

#include "fail.h"

#include <stdio.h>

const char *job_slice_format(const struct job_slice *slice, char text[JOB_SLICE_TEXT]) {
    size_t length = 0;
    if (slice->index || slice->first != 0)
        length = (size_t)snprintf(text, JOB_SLICE_TEXT, "%lld", (long long)slice->first);
    if (slice->index) return text;
    length += (size_t)snprintf(text + length, JOB_SLICE_TEXT - length, ":");
    if (slice->has_end)
        length += (size_t)snprintf(text + length, JOB_SLICE_TEXT - length, "%lld", (long long)slice->end);
    if (slice->step != 1) snprintf(text + length, JOB_SLICE_TEXT - length, ":%lld", (long long)slice->step);
    return text;
}

char *job_select_text(const struct job_select *select) {
    OWNED char *text = must_strdup("[");
    for (int axis = 0; axis < select->rank; axis++) {
        char slice[JOB_SLICE_TEXT];
        must_append(&text, "%s%s", axis ? ", " : "", job_slice_format(&select->slices[axis], slice));
    }
    return must_printf("%s]", text);
}
