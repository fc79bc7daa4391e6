/* check.c - `tilerun check JOB...`: prints what is wrong with jobs. */
#include "../base/text.h"
#include "../store/store.h"
#include "command.h"

struct check_settings {
    struct job_settings job;
};

/* Plans each job, and checks its output if the job is good. Returns the status of the last one that is not. */
static enum status check(const struct invocation *invocation, struct error *error) {
    const struct check_settings *settings = invocation->settings;
    enum status worst = STATUS_OK;
    for (int i = 0; i < invocation->count; i++) {
        const char *path = invocation->operands[i];
        FREED_BY(job_release) struct job *job = NULL;
        FREED_BY(plan_release) struct plan *plan = NULL;
        enum status status = command_load(path, &settings->job, false, &job, &plan, error);
        if (!status) command_report_remarks(job);
        struct error clash = {.status = STATUS_OK};
        if (!status) status = results_check_output(job->output, plan, &clash);
        if (clash.text[0]) text_print_stderr("%s: %s\n", path, clash.text);
        if (status) worst = status;
    }
    return worst;
}

static const struct option_row rows[] = {ROW_SET(struct check_settings), {0}};

const struct command command_check = {
    .name = "check",
    .summary = "Check jobs: parse them, resolve parameters, check shapes, open inputs. Print nothing if they are good.",
    .operands = {"JOB...", WORD_JOB, .min = 1, .max = -1},
    .rows = rows,
    .settings_bytes = sizeof(struct check_settings),
    .run = check,
};
