/* members.c - a process for each device, and their merge. */
#include "members.h"

#include "../base/fail.h"
#include "../base/interrupt.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "/proc/self/exe"
#define MEMBER  "TILERUN_TEAM_MEMBER" /* in a member's environment: its number, from 0 */
#define WORDS   16                    /* that are added to a command line, at most */
#define POLL_NS 20000000

/* -1: this process is none. */
static int member_number(void) {
    const char *text = getenv(MEMBER);
    return text && *text ? atoi(text) : -1;
}

void members_choose(struct device_facts *facts) {
    int number = member_number();
    if (number < 0 || facts->team <= 1) return;
    facts->numbers[0] = facts->numbers[number % facts->team];
    facts->team = 1;
    plan_device_text(facts, 1, facts->id, sizeof facts->id);
}

int members_count(const struct plan *plan) {
    if (plan->job->parallel != JOB_PARALLEL_RUNS || member_number() >= 0) return 1;
    int team = plan->facts[plan->present[DEVICE_CUDA] ? DEVICE_CUDA : DEVICE_CPU].team;
    return team > 1 ? team : 1;
}

/* Starts this program with arguments that end at NULL. A member's tables go nowhere: `merge` prints all rows. */
static pid_t start(char **arguments, int member) {
    char number[16];
    snprintf(number, sizeof number, "%d", member);
    pid_t parent = getpid(), process = fork();
    if (process != 0) return process;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a member does not outlive this process */
    if (getppid() != parent) _exit(STATUS_INTERRUPTED);
    if (member >= 0) {
        setenv(MEMBER, number, 1);
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    }
    execv(PROGRAM, arguments);
    _exit(STATUS_IO);
}

/* Waits for all; the status is the worst one's. A signal that comes meanwhile goes to all of them. Where one ends with
 * work undone the others are told to end, since they may wait for its results. */
static enum status wait_for(pid_t *processes, int count) {
    enum status worst = STATUS_OK;
    bool told = false, undone = false;
    for (int left = count; left > 0;) {
        struct error error = {.status = STATUS_OK};
        if (!told && (interrupt_check(&error) || undone)) {
            told = true;
            for (int i = 0; i < count; i++)
                if (processes[i] > 0) kill(processes[i], SIGTERM);
        }
        for (int i = 0; i < count; i++) {
            int how = 0;
            if (processes[i] <= 0 || waitpid(processes[i], &how, WNOHANG) != processes[i]) continue;
            enum status status = WIFEXITED(how) ? (enum status)WEXITSTATUS(how) : STATUS_INTERRUPTED;
            if (WIFSIGNALED(how)) /* it could not say so itself */
                fprintf(stderr, "tilerun: the process of one device was ended by signal %d; --resume does the rest\n",
                        WTERMSIG(how));
            bool obeys = undone && WIFEXITED(how) && status == STATUS_INTERRUPTED; /* as it was told */
            if (status > worst && !obeys) worst = status;
            undone = undone || WIFSIGNALED(how) || (status > STATUS_RUN && status != STATUS_INTERRUPTED);
            processes[i] = 0;
            left--;
        }
        if (left > 0) nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return worst;
}

static enum status run_members(int members, int argc, char **argv, struct error *error) {
    char **words = must_malloc((size_t)(argc + WORDS) * sizeof *words), shard[48];
    pid_t *processes = must_malloc((size_t)members * sizeof *processes);
    enum status status = STATUS_OK;
    int count = 0, started = 0;
    const char *const first[] = {"tilerun", argv[0], "--by", "runs", "--shard", shard};
    for (; count < 6; count++) words[count] = (char *)first[count];
    for (int i = 1; i < argc; i++) words[count++] = argv[i];
    words[count] = NULL;
    for (int i = 0; i < members && !status; i++) {
        snprintf(shard, sizeof shard, "%d/%d", i, members);
        processes[i] = start(words, i);
        if (processes[i] < 0) status = FAIL_CALL(error, STATUS_DEVICE, "fork", strerror(errno));
        started = i + (processes[i] >= 0);
    }
    if (status) interrupt_ask(SIGTERM);
    enum status worst = wait_for(processes, started);
    free(processes);
    free(words);
    return status ? status : worst;
}

enum status members_run(int members, int argc, char **argv, const char *output, const char *const *merge,
                        struct error *error) {
    enum status status = run_members(members, argc, argv, error);
    if (status == STATUS_INTERRUPTED)
        TRY(interrupt_check(error)); /* it was not for us: a member's own message says why */
    if (status > STATUS_RUN) return status;
    const char *words[WORDS] = {"tilerun", "merge"};
    int count = 2;
    while (*merge) words[count++] = *merge++;
    words[count++] = "--";
    words[count] = output;
    pid_t process = start((char **)words, -1);
    if (process < 0) return FAIL_CALL(error, STATUS_DEVICE, "fork", strerror(errno));
    status = wait_for(&process, 1);
    if (status == STATUS_INTERRUPTED) TRY(interrupt_check(error));
    return status;
}
