/* execute_values.c - what decoding, conversions and missing sources have made of an array's elements, in words. */
#include "../base/fail.h"
#include "execute_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void execution_say_values(struct execution *execution, struct reader *reader) {
    char *absent = reader->losses_printed ? NULL : reader_absent_sources(reader);
    char *losses = reader->losses_printed ? NULL : reader_cast_losses(reader);
    char *decoded = reader->losses_printed ? NULL : reader_decoding_text(reader);
    const char *remark = reader->losses_printed ? NULL : reader->array->remark;
    char *ignored = remark ? must_printf("input '%s': %s", reader->array->name, remark) : NULL;
    reader->losses_printed = true;
    if (absent) progress_note(&execution->progress, absent);
    if (ignored) progress_note(&execution->progress, ignored);
    if (decoded) progress_note(&execution->progress, decoded);
    if (losses) progress_note(&execution->progress, losses);
    free(absent);
    free(losses);
    free(decoded);
    free(ignored);
}

static void note(struct result_row *row, const char *text) {
    size_t used = strlen(row->message);
    snprintf(row->message + used, sizeof row->message - used, "%s%s", used ? "; " : "", text);
}

void execution_note_values(const struct execution *execution, const struct task *task, struct result_row *row) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        const struct reader *reader = &execution->readers.of[task->in[i]];
        const struct array *array = reader->array;
        const struct h5_absent *absent = &array->absent;
        char text[200];
        if (i > 0 && task->in[i] == task->in[0]) continue;
        char *decoded = reader_decoding_text(reader);
        snprintf(text, sizeof text, "'%s' decoded, %lld of %lld missing", array->name, (long long)reader->casts.missing,
                 (long long)reader->counted);
        if (decoded) note(row, text);
        snprintf(text, sizeof text, "'%s' lacks %d source%s, %lld of %lld elements", array->name, absent->sources,
                 absent->sources == 1 ? "" : "s", (long long)absent->elements,
                 (long long)shape_elements(&array->shape));
        if (absent->sources > 0) note(row, text);
        free(decoded);
    }
}
