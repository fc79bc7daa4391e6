/* execute_values.c - what decoding and conversions have made of an array's elements, in words. */
#include "../base/fail.h"
#include "execute_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void execution_say_values(struct execution *execution, struct reader *reader) {
    char *losses = reader->casts_said ? NULL : reader_losses(reader);
    char *decoded = reader->casts_said ? NULL : reader_decoded(reader);
    const char *remark = reader->casts_said ? NULL : reader->array->remark;
    char *ignored = remark ? must_printf("input '%s': %s", reader->array->name, remark) : NULL;
    reader->casts_said = true;
    if (ignored) progress_note(&execution->progress, ignored);
    if (decoded) progress_note(&execution->progress, decoded);
    if (losses) progress_note(&execution->progress, losses);
    free(losses);
    free(decoded);
    free(ignored);
}

void execution_note_values(const struct execution *execution, const struct task *task, struct result_row *row) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        const struct reader *reader = &execution->readers.of[task->in[i]];
        char *decoded = i > 0 && task->in[i] == task->in[0] ? NULL : reader_decoded(reader);
        if (!decoded) continue;
        size_t used = strlen(row->message);
        snprintf(row->message + used, sizeof row->message - used, "%s'%s' decoded, %lld of %lld missing",
                 used ? "; " : "", reader->array->name, (long long)reader->casts.missing, (long long)reader->cast);
        free(decoded);
    }
}
