/* test_members.c - a process for each device: what they are told, whose status counts, who is ended when one fails, and
 * that all are merged in the end. This program is its own members: they write down what they were told, and do what a
 * letter of it says. */
#include "../../runner/base/interrupt.h"
#include "../../runner/commands/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMBER "TILERUN_TEAM_MEMBER"

static char notes[64];

/* ---- a member, and the merge ------------------------------------------------------------------------------------- */

static void end_as_told(int number) {
    (void)number;
    _exit(STATUS_INTERRUPTED);
}

/* How many lines were written down. */
static int count_notes(void) {
    char text[4096];
    int file = open(notes, O_RDONLY), lines = 0;
    ssize_t bytes = file >= 0 ? read(file, text, sizeof text) : 0;
    if (file >= 0) close(file);
    for (ssize_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines;
}

static void wait_for_notes(int lines) {
    for (int i = 0; i < 20000 && count_notes() < lines; i++) usleep(1000);
}

/* Writes down what it was told; when all members have, it does what its letter says. */
static int be_a_member(int argc, char **argv, const char *text) {
    char *line = NULL;
    size_t length;
    struct stat out, nowhere;
    const char *number = getenv(MEMBER);
    bool silent = fstat(STDOUT_FILENO, &out) == 0 && stat("/dev/null", &nowhere) == 0 && out.st_rdev == nowhere.st_rdev;
    FILE *to = open_memstream(&line, &length);
    fprintf(to, "%s%s:", number ? number : "-", silent ? " silent" : "");
    for (int i = 0; i < argc; i++) fprintf(to, " %s", argv[i]);
    fputc('\n', to);
    fclose(to);
    char letter = number ? text[atoi(number)] : text[strlen(text) - 1];
    if (letter == 'w') signal(SIGTERM, end_as_told);
    int file = open(notes, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0 || write(file, line, length) < 0) return 99;
    close(file);
    free(line);
    wait_for_notes((int)strlen(text) - 1);
    if (letter == 'w') sleep(20);
    if (letter == 'k') kill(getpid(), SIGKILL);
    if (letter == 'l') usleep(60000); /* late */
    return letter >= '0' && letter <= '9' ? letter - '0' : letter == 'i' ? STATUS_INTERRUPTED : letter == 'l' ? 0 : 98;
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

/* What was written down, its lines sorted but for the last, which is `merge`'s. */
static char *noted(void) {
    static char text[4096];
    char command[256];
    snprintf(command, sizeof command, "grep -v ': tilerun merge' %s 2>&1 | sort; grep ': tilerun merge' %s 2>&1", notes,
             notes);
    FILE *from = popen(command, "r"); // NOLINT(cert-env33-c): a file of our own
    assert_non_null(from);
    text[fread(text, 1, sizeof text - 1, from)] = '\0';
    pclose(from);
    return text;
}

/* Runs as many members as there are letters but for the last, which is the merge's. */
static enum status run(const char *letters, struct error *error) {
    char *argv[] = {"run", "job.yaml", "--resume", NULL};
    const char *const merge[] = {"--resume", "--json", NULL};
    unlink(notes);
    setenv("LETTERS", letters, 1);
    *error = (struct error){STATUS_OK, ""};
    return members_run((int)strlen(letters) - 1, 3, argv, "out.h5", merge, error);
}

static void members_are_told_their_shares(void **state) {
    (void)state;
    struct error error;
    assert_int_equal(run("0l00", &error), STATUS_OK); /* the merge comes after the last of them */
    assert_string_equal(noted(), "0 silent: tilerun run --by runs --shard 0/3 job.yaml --resume\n"
                                 "1 silent: tilerun run --by runs --shard 1/3 job.yaml --resume\n"
                                 "2 silent: tilerun run --by runs --shard 2/3 job.yaml --resume\n"
                                 "-: tilerun merge --resume --json -- out.h5\n");
    assert_string_equal(error.text, "");
}

static void the_worst_status_counts(void **state) {
    (void)state;
    static const struct {
        const char *letters;
        int status;
        bool merged;
    } cases[] = {
        {"011", 1, true},   {"110", 0, true}, /* `merge` knows what was wrong */
        {"013", 3, true},   {"020", 2, false},  {"142", 4, false},  {"w30", 3, false},
        {"2w0", 2, false}, /* one that waits for others is ended */
        {"1l0", 0, true},  /* but not for a run that failed */
        {"k00", 75, false}, {"wk0", 75, false}, {"0i0", 75, false}, {"00i", 75, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        int saved = dup(STDERR_FILENO), ends[2];
        char said[512] = "";
        assert_int_equal(pipe(ends), 0);
        dup2(ends[1], STDERR_FILENO);
        enum status status = run(cases[i].letters, &error);
        dup2(saved, STDERR_FILENO);
        close(ends[1]);
        assert_true(read(ends[0], said, sizeof said - 1) >= 0);
        close(ends[0]);
        close(saved);
        bool merged = strstr(noted(), "merge") != NULL;
        if ((int)status != cases[i].status || merged != cases[i].merged)
            fail_msg("%s: %d%s", cases[i].letters, (int)status, merged ? ", merged" : "");
        bool killed = strchr(cases[i].letters, 'k') != NULL;
        assert_string_equal(
            said, killed ? "tilerun: the process of one device was ended by signal 9; --resume does the rest\n" : "");
    }
}

static void *send_a_signal(void *unused) {
    wait_for_notes(3);
    interrupt_ask(SIGTERM);
    return unused;
}

static void a_signal_ends_all(void **state) {
    (void)state;
    struct error error;
    pthread_t thread;
    unlink(notes);
    assert_int_equal(pthread_create(&thread, NULL, send_a_signal, NULL), 0);
    assert_int_equal(run("www0", &error), STATUS_INTERRUPTED);
    pthread_join(thread, NULL);
    interrupt_ask(0);
    assert_non_null(strstr(error.text, "signal"));
    assert_null(strstr(noted(), "merge"));
}

static void a_member_has_one_device(void **state) {
    (void)state;
    struct job job = {.parallel = JOB_PARALLEL_RUNS};
    struct plan plan = {.job = &job};
    plan.facts[DEVICE_CPU].team = 3;
    plan.facts[DEVICE_CUDA].team = 4;
    assert_int_equal(members_count(&plan), 3);
    plan.present[DEVICE_CUDA] = true;
    assert_int_equal(members_count(&plan), 4);
    plan.facts[DEVICE_CUDA].team = 0;
    assert_int_equal(members_count(&plan), 1);
    plan.facts[DEVICE_CUDA].team = 2;
    setenv(MEMBER, "0", 1);
    assert_int_equal(members_count(&plan), 1);
    setenv(MEMBER, "", 1);
    assert_int_equal(members_count(&plan), 2);
    job.parallel = (enum job_parallel) !JOB_PARALLEL_RUNS;
    assert_int_equal(members_count(&plan), 1);
    for (int member = -1; member < 5; member++) {
        char number[16];
        struct device_facts facts = {.kind = DEVICE_CPU, .team = 3, .numbers = {7, 8, 9}};
        snprintf(number, sizeof number, "%d", member);
        if (member < 0)
            unsetenv(MEMBER);
        else
            setenv(MEMBER, number, 1);
        members_choose(&facts);
        assert_int_equal(facts.team, member < 0 ? 3 : 1);
        assert_int_equal(facts.numbers[0], member < 0 ? 7 : 7 + member % 3);
        facts = (struct device_facts){.kind = DEVICE_CPU, .team = 1, .numbers = {5}};
        members_choose(&facts);
        assert_true(facts.team == 1 && facts.numbers[0] == 5 && !*facts.id);
    }
    unsetenv(MEMBER);
}

int main(int argc, char **argv) {
    const char *letters = getenv("LETTERS"), *of_parent = getenv("NOTES");
    snprintf(notes, sizeof notes, "/tmp/tilerun-members-%d", (int)getpid());
    if (letters && of_parent) {
        snprintf(notes, sizeof notes, "%s", of_parent);
        return be_a_member(argc, argv, letters);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_told_their_shares),
        cmocka_unit_test(the_worst_status_counts),
        cmocka_unit_test(a_member_has_one_device),
        cmocka_unit_test(a_signal_ends_all),
    };
    unsetenv(MEMBER);
    setenv("NOTES", notes, 1);
    int failed = cmocka_run_group_tests_name("members", tests, NULL, NULL);
    unlink(notes);
    return failed;
}
