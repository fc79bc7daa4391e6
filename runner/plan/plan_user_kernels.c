/* plan_user_kernels.c - makes, checks and builds user kernels. */
#include "plan_user_kernels.h"
#include "../../kernels/map/before.h"

#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include "plan_parts.h"
#include "plan_tiles.h"
#include "user_kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const struct kernel *plan_user_kernel(struct plan *plan, const struct task *task, const struct job_variant *variant) {
    const struct geometry *geometry = &task->geometry;
    const struct kernel *kernel = NULL;
    const struct yaml_node *where = variant->where;
    struct error error = {.status = STATUS_OK};
    user_kernel_make(variant, geometry->op, first_operand(geometry)->dtype, geometry->out.dtype, &kernel, &where,
                     &error);
    *APPEND(plan->user_kernels, plan->user_kernel_count) = kernel;
    if (error.status) plan_mistake(plan->job, where, task->operation->label, "%s", error.text);
    return error.status || !task->known ? NULL : kernel;
}

bool plan_user_kernel_check(const struct plan *plan, const struct task *task, struct run *run) {
    const struct yaml_node *where = run->variant->where;
    struct error error = {.status = STATUS_OK};
    const struct launch launch = plan_launch(&task->geometry, &plan->facts[run->device], run, &run->tiling);
    enum status status = user_kernel_check(run->kernel, &launch, &where, &error);
    if (status == STATUS_OK) return true;
    if (status == STATUS_DEVICE && run->search)
        run->skip = must_strdup(error.text);
    else
        plan_mistake(plan->job, where ? where : run->variant->where, task->operation->label, "%s", error.text);
    return false;
}

/* Prints that a kernel does not use one of its parameters, a mistyped one perhaps, unless *said is that line already;
 * then *said is that line. */
static void report_idle_parameter(const struct run *run, char **said) {
    const char *name = user_kernel_idle_parameter(run->kernel, run->variant);
    if (!name) return;
    char *line = must_printf("%s does not use the parameter '%s', whose value is its macro %s",
                             user_kernel_source_name(run->kernel), name, name);
    for (char *c = line + strlen(line) - strlen(name); *c; c++) *c = (char)toupper((unsigned char)*c);
    if (strcmp(line, *said) != 0) text_print_message(line);
    free(*said);
    *said = line;
}

enum status plan_user_kernels_build(const struct plan *plan, bool verbose, struct error *error) {
    OWNED char *said = must_strdup("");
    OWNED char *before = must_strdup(""); /* the warnings printed last: combinations mostly have the same */
    enum status status = STATUS_OK;
    const struct run *first = NULL; /* of the latest search */
    for (int i = 0; i < plan->run_count && !status; i++) {
        const struct run *run = &plan->runs[i];
        if (run->skip || !run->kernel || !run->kernel->user_kernel) continue;
        if (run->search && first && run->task == first->task && run->search == first->search) continue;
        if (run->search) first = run;
        report_idle_parameter(run, &said);
        char *warnings = must_strdup("");
        int capability = plan->facts[run->device].compute_capability;
        status = user_kernel_build(run->kernel, capability, verbose ? &warnings : NULL, error);
        warnings[strlen(warnings) - (*warnings != '\0')] = '\0'; /* the last newline */
        if (*warnings && strcmp(warnings, before) != 0) text_print_message(warnings);
        free(before);
        before = warnings;
    }
    return status;
}

struct kernel_files plan_kernel_files(const struct plan *plan) {
    struct kernel_files files = {0};
    for (int i = 0; i < plan->user_kernel_count; i++) {
        const struct sources *sources = user_kernel_sources(plan->user_kernels[i]);
        for (int j = 0; j < sources->count; j++) {
            char *name = path_beside(user_kernel_source_name(plan->user_kernels[i]), sources->files[j].name);
            bool known = false;
            for (int k = 0; k < files.count && !known; k++) known = strcmp(files.items[k].name, name) == 0;
            if (known)
                free(name);
            else
                *APPEND(files.items, files.count) = (struct kernel_file){name, &sources->files[j]};
        }
    }
    return files;
}

void kernel_files_clear(struct kernel_files *files) {
    for (int i = 0; i < files->count; i++) free(files->items[i].name);
    free(files->items);
}
