/* pin.c - writes a job in which the winners replace the searches: the resolved job, restricted to the
 * winners as by --only. */
#include "pin.h"

#include "../base/path.h"
#include "../base/text.h"
#include "../show/result_file.h"
#include "../store/store.h"

#include <string.h>

static const char beginning[] = "# Written by tilerun run --pin: ";

/* Has the variant, at the operation's combination, a finished run among the rows? A search records its winner only. */
static bool has_won(const struct job_operation *operation, const struct job_variant *variant,
                    const struct result_row *rows, int count) {
    for (int i = 0; i < count; i++)
        if (result_row_done(&rows[i]) && strcmp(rows[i].operation, operation->id) == 0 &&
            strcmp(rows[i].parameters, operation->label) == 0 && strcmp(rows[i].variant, variant->label) == 0)
            return true;
    return false;
}

char *pin_only(const struct job *job, const struct result_row *rows, int count) {
    char *only = must_strdup("");
    for (int i = 0; i < job->operation_count; i++) {
        const struct job_operation *operation = &job->operations[i];
        bool searches = false, any = false;
        for (int v = 0; v < operation->variant_count; v++) searches |= operation->variants[v].search.group != 0;
        for (int v = 0; v < operation->variant_count && searches; v++) {
            const struct job_variant *variant = &operation->variants[v];
            if (variant->search.group && !has_won(operation, variant, rows, count)) continue;
            must_append(&only, "%s%s:%s", *only ? "," : "", operation->id, variant->label);
            any = true;
        }
        if (!any) must_append(&only, "%s%s", *only ? "," : "", operation->id);
    }
    return only;
}

enum status pin_open(const struct job *job, const struct plan *plan, const char *path, bool overwrite,
                     struct atomic_file *file, struct error *error) {
    TRY(results_check_other(job->output, plan, "pinned job", path, error));
    TRY(atomic_file_open("pinned job", path, beginning, overwrite, file, error));
    OWNED char *given = path_folder(job->path);
    OWNED char *job_folder = must_realpath(given);
    OWNED char *pin_folder = file->destination.folder ? must_realpath(file->destination.folder) : NULL;
    bool same = job_folder && pin_folder && strcmp(job_folder, pin_folder) == 0;
    if (same) return STATUS_OK;
    return fail(error, STATUS_USAGE,
                "pinned job %s: must lie in the folder of the job, %s, where the job's paths start", path, given);
}

enum status pin_write(const struct job *job, const struct job_overrides *overrides, struct atomic_file *file,
                      struct error *error) {
    FREED_BY(results_file_release) struct results_file *results = NULL;
    size_t length;
    TRY(results_file_open(job->output, &results, error));
    OWNED char *only = pin_only(job, results->rows, results->count);
    struct job_overrides narrowed = *overrides;
    narrowed.only = only;
    narrowed.winners = true;
    narrowed.output = NULL;
    FREED_BY(job_release) struct job *pinned_job = job_parse(job->path, yaml_text(job->document, &length), &narrowed);
    if (!pinned_job->resolved)
        return fail(error, STATUS_IO, "pinned job %s: what the job names has changed; `tilerun check` says how",
                    file->destination.name);
    TRY(atomic_file_begin(file, error));
    fprintf(file->to, "%sthe fastest of what %s searched\n%s", beginning, job->name, pinned_job->resolved);
    OWNED char *name = must_strdup(file->destination.name);
    TRY(atomic_file_close(file, error));
    text_print_stderr("tilerun: wrote %s\n", name);
    return STATUS_OK;
}
