/* execute_values.c - makes the texts of rows and notes: names of runs, and how decoding, conversions and missing
 * sources have changed an array's elements. */
#include "../base/fail.h"
#include "execute_run.h"

#include <stdio.h>
#include <string.h>

void execution_set_status(struct result_row *row, const char *status, const char *message) {
    snprintf(row->status, sizeof row->status, "%s", status);
    snprintf(row->message, sizeof row->message, "%.255s", message);
}

void execution_name_run(const struct execution *execution, const struct run *run, char name[320]) {
    const struct job_operation *operation = execution->plan->tasks[run->task].operation;
    const char *panel = execution->plan->tasks[run->task].panel;
    snprintf(name, 320, "%s %s%s%s%s%.60s", operation->id, run->label, operation->label[0] ? " " : "", operation->label,
             panel ? ", " : "", panel ? panel : "");
}

void execution_report_values(struct execution *execution, struct reader *reader) {
    const struct array *array = reader->array;
    if (reader->losses_printed) return;
    reader->losses_printed = true;
    OWNED char *title = array_title(array), *absent = reader_absent_sources(reader);
    OWNED char *decoded = reader_decoding_text(reader), *losses = reader_cast_losses(reader);
    const char *const notes[] = {absent, array->remark, decoded, losses};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i]) progress_note(&execution->progress, "%s: %s", title, notes[i]);
}

void execution_add_remark(struct result_row *row, const char *text) {
    size_t used = strlen(row->message);
    snprintf(row->message + used, sizeof row->message - used, "%s%s", used ? "; " : "", text);
}

void execution_add_values(const struct execution *execution, const struct task *task, struct result_row *row) {
    for (int i = 0; i < task->geometry.inputs; i++) {
        const struct reader *reader = &execution->readers.items[task->in[i]];
        const struct array *array = reader->array;
        const struct h5_absent *absent = &array->absent;
        char text[200];
        if (i > 0 && task->in[i] == task->in[0]) continue;
        OWNED char *decoded = reader_decoding_text(reader);
        int length = snprintf(text, sizeof text, "'%s' decoded, %lld of %lld missing", array->name,
                              (long long)reader->casts.missing, (long long)reader->counted);
        if (reader->casts.rounded > 0 && length < (int)sizeof text)
            snprintf(text + length, sizeof text - (size_t)length, ", %lld rounded", (long long)reader->casts.rounded);
        if (decoded) execution_add_remark(row, text);
        snprintf(text, sizeof text, "'%s' lacks %d source%s, %lld of %lld elements", array->name, absent->sources,
                 absent->sources == 1 ? "" : "s", (long long)absent->elements,
                 (long long)shape_elements(&array->shape));
        if (absent->sources > 0) execution_add_remark(row, text);
    }
}
