/* test_progress.c - the live line as text of any width, the estimate of what is left, the thread that draws. */
#include "../../runner/base/clock.h"
#include "../../runner/base/fail.h"
#include "../../runner/base/progress.h"
#include "../../runner/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

static unsigned seed;

static int make_seed(void **state) {
    const char *given = getenv("TILERUN_SEED");
    seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)getpid() * 2654435761u;
    printf("seed %u\n", seed);
    srand(seed);
    return 0;
}

static int draw(int below) {
    return (int)((double)rand() / ((double)RAND_MAX + 1) * below);
}

/* Any size, zero and what is no number among them. */
static double draw_number(void) {
    const double odd[] = {0, NAN, INFINITY, -INFINITY, -1, 1e300, 1e-300, -0.0};
    return draw(4) == 0 ? odd[draw(8)] : pow(10, draw(30) - 12) * (1 + draw(9000) / 1000.0);
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = {
    "p cpu",
    "product tiled,tile=16 n=1024",
    "Größe größer µ=1",
    "\xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86 \xf0\x9f\x98\x80 n=2", /* two columns each */
    "\x1b[31mred\r\n\x07\xff\xc3",
    "",
    "an_operation_whose_name_is_long_and_whose_sweep_is_longer auto alpha=0.125,beta=3,gamma=[1, 2, 3],n=12345",
};

static void assert_clean(const char *line, const char *name) {
    OWNED char *shown = text_clean(name);
    for (const char *at = line; *at; at++) assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
    const char *rest = strstr(line, shown[0] ? shown : "]"); /* the numbers come after the name */
    if (!rest) return;
    rest += strlen(shown);
    const char *warm = strstr(rest, "warm-up");
    if (strstr(rest, "nan") || strstr(rest, "inf") || strstr(rest, "e+") || strstr(rest, "e-") ||
        strchr(warm ? warm + 5 : rest, '-'))
        fail_msg("'%s'", line);
}

static void a_line_fits_any_width(void **state) {
    for (int i = 0; i < 200000; i++) {
        struct progress_view view = {.run = draw(3) ? draw(2000) : draw(2000000000),
                                     .runs = draw(3) ? draw(2000) : 2147483647,
                                     .what = names[draw(7)],
                                     .phase = (enum progress_phase)draw(6),
                                     .done = draw(2) ? draw(100) : INT64_C(1) << draw(62),
                                     .total = draw(2) ? draw(100) : INT64_C(1) << draw(62),
                                     .bytes = draw_number(),
                                     .bytes_total = draw_number(),
                                     .phase_s = draw_number(),
                                     .seconds_each = draw_number(),
                                     .job_s = draw_number(),
                                     .left_s = draw_number()};
        int width = draw(20) == 0 ? draw(11) : 10 + draw(191);
        OWNED char *line = progress_line(&view, width), *same = progress_line(&view, width);
        if (text_width(line) > width) fail_msg("%d columns of %d: '%s'", text_width(line), width, line);
        assert_clean(line, view.what);
        assert_string_equal(same, line);
    }
}

static const struct progress_view typical = {.run = 5,
                                             .runs = 6,
                                             .what = "product cpu n=1024",
                                             .phase = PHASE_REPEAT,
                                             .done = 2,
                                             .total = 20,
                                             .seconds_each = 1.2,
                                             .job_s = 41.7,
                                             .left_s = 70.2};

static void assert_line(struct progress_view view, int width, const char *expected) {
    OWNED char *line = progress_line(&view, width);
    assert_string_equal(line, expected);
}

static void phases_have_their_words(void **state) {
    struct progress_view view = typical;
    assert_line(view, 120, "[5/6] product cpu n=1024  repeat 3/20  1.2 s each  job 0:41, ~1:10 left");
    view.done = 20;
    view.left_s = NAN;
    assert_line(view, 120, "[5/6] product cpu n=1024  repeat 20/20  1.2 s each  job 0:41");
    view.phase = PHASE_WARM_UP;
    assert_line(view, 120, "[5/6] product cpu n=1024  warm-up  job 0:41");
    view.phase = PHASE_VERIFY;
    view.job_s = 36000 + 62;
    assert_line(view, 120, "[5/6] product cpu n=1024  verify  job 10:01:02");
    view = typical;
    view.phase = PHASE_ASSEMBLE;
    assert_line(view, 120, "[5/6] assembling  job 0:41");
    view.phase = PHASE_BEGIN;
    view.run = 0;
    view.left_s = NAN;
    assert_line(view, 120, "[0/6] reading inputs  job 0:41");
}

static void bytes_are_told_where_they_are_many(void **state) {
    struct progress_view view = typical;
    view.phase = PHASE_TILES;
    view.total = 64;
    view.phase_s = 2;
    view.bytes = 0.09e9;
    view.bytes_total = 4.8e9;
    assert_line(view, 120, "[5/6] product cpu n=1024  tile 3/64  job 0:41, ~1:10 left");
    view.bytes = 1.2e9;
    assert_line(view, 120, "[5/6] product cpu n=1024  tile 3/64  1.2 of 4.8 GB  0.60 GB/s  job 0:41, ~1:10 left");
    view.bytes_total = 1e9; /* smaller tiles than planned read some inputs more often */
    assert_line(view, 120, "[5/6] product cpu n=1024  tile 3/64  1.2 of 1.2 GB  0.60 GB/s  job 0:41, ~1:10 left");
    view.total = view.done = 0;
    view.bytes = 0;
    assert_line(view, 120, "[5/6] product cpu n=1024  job 0:41, ~1:10 left");
}

static void the_least_important_goes_first(void **state) {
    assert_line(typical, 71, "[5/6] product cpu n=1024  repeat 3/20  1.2 s each  job 0:41, ~1:10 left");
    assert_line(typical, 70, "[5/6] product cpu n=1..  repeat 3/20  1.2 s each  job 0:41, ~1:10 left");
    assert_line(typical, 68, "[5/6] product cpu n=1024  repeat 3/20  job 0:41, ~1:10 left");
    assert_line(typical, 60, "[5/6] product cpu n=1024  repeat 3/20  job 0:41, ~1:10 left");
    assert_line(typical, 57, "[5/6] product cpu n=..  repeat 3/20  job 0:41, ~1:10 left");
    assert_line(typical, 40, "[5/6] product cpu n=1024  repeat 3/20");
    assert_line(typical, 30, "[5/6] product cpu n=1024");
    assert_line(typical, 12, "[5/6] prod..");
    assert_line(typical, 4, "[5/6");
}

static void names_move_no_cursor(void **state) {
    struct progress_view view = typical;
    view.what = names[4];
    assert_line(view, 22, "[5/6] ?[31mred? ?\?\?");
    view.what = names[3];
    assert_line(view, 16, "[5/6] \xe6\x95\xb0\xe6\x8d\xae\xe9\x9b\x86 ..");
}

/* ---- what is left ------------------------------------------------------------------------------------------------ */

static void what_is_left_follows_what_was_measured(void **state) {
    int slow, quick;
    struct progress_work work[4] = {
        {.pass_s = 1, .verify_s = 1, .repeat_s = 1, .repeats = 8, .kind = &slow},
        {.pass_s = 1, .verify_s = 1, .repeat_s = 1, .repeats = 8, .kind = &quick},
        {.pass_s = 2, .verify_s = 2, .repeat_s = 2, .repeats = 8, .kind = &slow},
        {.pass_s = 9, .nothing_left = true}, /* it is skipped */
    };
    assert_true(isnan(progress_left_s(work, 4, -1, 0)));
    assert_true(isnan(progress_left_s(work, 4, 0, 100)));
    assert_float_equal(progress_done_s(&work[0], PHASE_TILES, 0, 0), 0, 0); /* it is not known yet of how many tiles */
    /* The pass took 3 s instead of 1 s: so will the rest. */
    work[0].done_s = progress_done_s(&work[0], PHASE_VERIFY, 0, 0);
    work[0].spent_s = 3;
    assert_float_equal(progress_left_s(work, 4, 0, 0), 3 * (9 + 10 + 20), 1e-9);
    assert_float_equal(progress_left_s(work, 4, 0, 5), 3 * (9 + 10 + 20) - 5, 1e-9);
    work[0].spent_s = 300; /* what one variant is slow by is not believed of another */
    assert_float_equal(progress_left_s(work, 4, 0, 0), 300 * (9 + 20) + 4 * 10, 1e-9);
    work[0].spent_s = 3;
    /* Longer than all is expected to take: nothing is known. */
    assert_true(isnan(progress_left_s(work, 4, 0, 28)));
    /* Its repeats have a pace of their own. */
    work[0].pace_s = 0.25;
    work[0].repeats_left = 4;
    assert_float_equal(progress_left_s(work, 4, 0, 0.5), 0.5 + 3 * (10 + 20), 1e-9);
    assert_float_equal(progress_left_s(work, 4, 0, 100), 0 + 3 * (10 + 20), 1e-9);
    /* Another kind of run is ten times as quick as was predicted, and only its own kind profits. */
    work[0].nothing_left = work[1].nothing_left = true;
    work[0].done_s = work[1].done_s = 10;
    work[0].spent_s = 30;
    work[1].spent_s = 1;
    assert_float_equal(progress_left_s(work, 4, -1, 0), 3 * 20, 1e-9);
    work[2].nothing_left = true;
    assert_float_equal(progress_left_s(work, 4, -1, 0), 0, 0);
}

static void what_is_left_is_never_nonsense(void **state) {
    int kinds[3];
    for (int i = 0; i < 50000; i++) {
        struct progress_work work[8];
        int runs = 1 + draw(8);
        for (int r = 0; r < runs; r++) {
            work[r] = (struct progress_work){.pass_s = fabs(draw_number()),
                                             .verify_s = fabs(draw_number()),
                                             .repeat_s = fabs(draw_number()),
                                             .repeats = draw(50),
                                             .kind = draw(4) ? &kinds[draw(3)] : NULL,
                                             .spent_s = draw(2) ? fabs(draw_number()) : 0,
                                             .repeats_left = draw(50),
                                             .pace_s = fabs(draw_number()),
                                             .nothing_left = draw(3) == 0};
            work[r].done_s = progress_done_s(&work[r], (enum progress_phase)draw(6), draw(100), draw(100));
        }
        double left = progress_left_s(work, runs, draw(runs + 1) - 1, draw_number());
        assert_true(isnan(left) || (left >= 0 && isfinite(left)));
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

struct caught {
    int error_output, ends[2]; /* the real stderr; a pipe in its place */
};

static void catch (struct caught *caught) {
    assert_int_equal(pipe(caught->ends), 0);
    caught->error_output = dup(STDERR_FILENO);
    dup2(caught->ends[1], STDERR_FILENO);
}

/* What was written so far, up to 64 KiB. */
static char *told_so_far(const struct caught *caught) {
    static char text[1 << 16];
    size_t length = 0;
    struct pollfd ready = {.fd = caught->ends[0], .events = POLLIN};
    while (length < sizeof text - 1 && poll(&ready, 1, 0) == 1) {
        ssize_t got = read(caught->ends[0], text + length, sizeof text - 1 - length);
        if (got <= 0) break;
        length += (size_t)got;
    }
    text[length] = '\0';
    return text;
}

static void let_go(struct caught *caught) {
    dup2(caught->error_output, STDERR_FILENO);
    close(caught->error_output);
    close(caught->ends[0]);
    close(caught->ends[1]);
}

static void set_period(struct progress *progress, double seconds) {
    pthread_mutex_lock(&progress->mutex);
    progress->period_s = seconds;
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->mutex);
}

static void rest_ms(int ms) {
    poll(NULL, 0, ms);
}

static const struct progress_work two_runs[2] = {{.pass_s = 1, .repeat_s = 1, .repeats = 3},
                                                 {.pass_s = 1, .repeat_s = 1, .repeats = 3}};

/* Of a run's repeats: from the clock once it was in hand for some, until then from the first. */
static void repeats_have_a_pace(void **state) {
    struct progress progress;
    progress_begin(&progress, PROGRESS_NONE, two_runs, 2);
    const struct progress_work *work = &progress.work[0];
    progress_run(&progress, 0, "p cpu");
    progress_repeat(&progress, 0, 0, 10, NAN);
    assert_true(work->pace_s == 0 && work->repeats_left == 3);
    progress_repeat(&progress, 0, 2, 10, 0.25);
    assert_true(work->pace_s == 0.25 && work->repeats_left == 1);
    progress_repeat(&progress, 0, 4, 10, 0.25);
    assert_true(work->pace_s >= 0 && work->pace_s < 0.25 && work->paced == 2 && work->repeats_left == 2);
    progress_repeat(&progress, 0, 9, 10, 0.25);
    assert_true(work->paced == 7 && work->repeats_left == 1);
    assert_false(work->nothing_left || work->counted);
    progress_outcome(&progress, 0, "ok", true);
    assert_true(work->nothing_left && work->counted && work->done_s == 4 && progress.finished == 1);
    progress_run(&progress, 0, "p cpu"); /* anew */
    assert_true(!work->nothing_left && !work->counted && progress.finished == 0);
    progress_end(&progress);
}

/* Time is that of the run in hand, until the next news; of none while there is none. */
static void time_is_booked_on_the_run_in_hand(void **state) {
    struct progress progress;
    progress_begin(&progress, PROGRESS_NONE, two_runs, 2);
    const struct progress_work *work = progress.work;
    double begun = now_s();
    rest_ms(30);
    double taken = now_s();
    progress_run(&progress, 0, "p cpu");
    assert_true(work[0].spent_s == 0 && work[1].spent_s == 0);
    rest_ms(30);
    progress_tiles(&progress, 2);
    double once = work[0].spent_s;
    assert_true(once >= 0.029 && once <= now_s() - taken);
    rest_ms(30);
    progress_verify(&progress);
    assert_true(work[0].spent_s >= once + 0.029 && work[0].spent_s <= now_s() - taken);
    progress_run(&progress, 1, "p blocked");
    double first = work[0].spent_s;
    assert_true(first <= now_s() - taken);
    rest_ms(30);
    progress_wait(&progress, "another");
    assert_true(work[1].spent_s >= 0.029 && work[1].spent_s <= now_s() - taken && work[0].spent_s == first);
    double second = work[1].spent_s;
    rest_ms(30);
    progress_run(&progress, 0, "p cpu");
    assert_true(work[0].spent_s == first && work[1].spent_s == second);
    rest_ms(30);
    progress_repeat(&progress, 1, 0, 3, NAN); /* a turn: the time before it is the other's */
    assert_true(work[0].spent_s >= first + 0.029 && work[1].spent_s == second);
    progress_outcome(&progress, 1, "failed", false); /* tells nothing of how long others take */
    assert_true(work[1].spent_s == 0 && work[0].spent_s >= first);
    assert_true(work[0].spent_s <= now_s() - begun);
    progress_end(&progress);
}

static void a_heartbeat_while_a_run_lasts(void **state) {
    struct caught caught;
    struct progress progress;
    catch (&caught);
    progress_begin(&progress, PROGRESS_PLAIN, two_runs, 2);
    bool once_a_minute = progress.period_s == 60;
    progress_run(&progress, 0, "p cpu");
    progress_repeat(&progress, 0, 0, 3, NAN);
    progress_repeat(&progress, 0, 1, 3, 0.5);
    set_period(&progress, 0.02);
    char *text = told_so_far(&caught);
    for (int i = 0; i < 500 && !text[0]; i++) {
        rest_ms(10);
        text = told_so_far(&caught);
    }
    bool beats = strstr(text, "[1/2] p cpu  repeat 2/3  500 ms each  job 0:0") == text && strchr(text, '\n');
    set_period(&progress, 60);
    progress_outcome(&progress, 0, "ok, 1 ms", true);
    progress_run(&progress, 1, "p blocked");
    progress_outcome(&progress, 1, "failed: no", false);
    progress_end(&progress);
    text = told_so_far(&caught);
    bool outcomes = strstr(text, "[1/2] p cpu: ok, 1 ms\n[2/2] p blocked: failed: no\n") != NULL;
    let_go(&caught);
    assert_true(once_a_minute);
    assert_true(beats);
    assert_true(outcomes);
}

static void nothing_is_drawn_where_none_is_wanted(void **state) {
    struct caught caught;
    struct progress progress;
    catch (&caught);
    progress_begin(&progress, PROGRESS_NONE, two_runs, 2);
    progress_run(&progress, 0, "p cpu");
    progress_tiles(&progress, 3);
    progress_step(&progress, 1e9);
    progress_outcome(&progress, 0, "ok", true);
    progress_wait(&progress, "waits for another");
    bool quiet = told_so_far(&caught)[0] == '\0', thread = progress.started;
    progress_note(&progress, "a note");
    bool note = strcmp(told_so_far(&caught), "tilerun: a note\n") == 0;
    progress_end(&progress);
    progress_end(&progress);
    let_go(&caught);
    assert_true(quiet && note && !thread);
}

static void assert_answered(struct progress *progress, const struct caught *caught, int number, const char *expected) {
    pthread_mutex_lock(&progress->mutex);
    progress->acknowledged = false;
    pthread_mutex_unlock(&progress->mutex);
    progress_announce_signal(progress, number);
    const char *text = told_so_far(caught);
    if (strcmp(text, expected) != 0) {
        dup2(caught->error_output, STDERR_FILENO);
        fail_msg("'%s', not '%s'", text, expected);
    }
}

static void a_signal_is_answered_with_what_is_in_hand(void **state) {
    struct caught caught;
    struct progress progress;
    catch (&caught);
    progress_begin(&progress, PROGRESS_PLAIN, two_runs, 2);
#define ANSWER(name, where, again)                                                                                     \
    "tilerun: " name ": stopping within a second, " where "; Ctrl-C " again "stops at once\n"
    assert_answered(&progress, &caught, SIGTERM, ANSWER("SIGTERM", "before the first run", ""));
    progress_run(&progress, 0, "p cpu");
    assert_answered(&progress, &caught, SIGUSR1, ANSWER("SIGUSR1", "in 'p cpu'", ""));
    progress_tiles(&progress, 64);
    for (int i = 0; i < 2; i++) progress_step(&progress, 0);
    assert_answered(&progress, &caught, SIGINT, ANSWER("SIGINT", "in tile 3 of 64 of 'p cpu'", "again "));
    progress_verify(&progress);
    assert_answered(&progress, &caught, SIGUSR2, ANSWER("SIGUSR2", "in the verification of 'p cpu'", ""));
    progress_repeat(&progress, 0, 0, 20, NAN);
    assert_answered(&progress, &caught, SIGINT, ANSWER("SIGINT", "in the warm-up of 'p cpu'", "again "));
    progress_repeat(&progress, 0, 20, 20, 1);
    assert_answered(&progress, &caught, SIGINT, ANSWER("SIGINT", "in repeat 20 of 20 of 'p cpu'", "again "));
    progress_outcome(&progress, 0, "ok", true);
    told_so_far(&caught);
    assert_answered(&progress, &caught, SIGTERM, ANSWER("SIGTERM", "after run 1 of 2", ""));
    progress_assemble(&progress);
    assert_answered(&progress, &caught, SIGTERM, ANSWER("SIGTERM", "while the results file is assembled", ""));
    progress_wait(&progress, "waits for another"); /* after an answer nothing is drawn, by news or by the clock */
    set_period(&progress, 1e-3);
    rest_ms(30);
    bool quiet = told_so_far(&caught)[0] == '\0';
    progress_end(&progress);
    let_go(&caught);
    assert_true(quiet);
}

static void *answer(void *progress) {
    progress_announce_signal(progress, SIGTERM);
    return NULL;
}

/* Every call at once, and a reader who reads nothing: nobody waits for the pipe for long. */
static void a_full_pipe_holds_up_nothing(void **state) {
    struct caught caught;
    struct progress progress;
    catch (&caught);
    fcntl(caught.ends[1], F_SETFL, O_NONBLOCK);
    char full[4096] = "";
    while (write(caught.ends[1], full, sizeof full) > 0) {
    }
    fcntl(caught.ends[1], F_SETFL, 0);
    progress_begin(&progress, PROGRESS_PLAIN, two_runs, 2);
    set_period(&progress, 1e-4);
    progress_run(&progress, 0, "p cpu");
    pthread_t watch;
    bool made = false;
    double begun = now_s();
    for (int i = 1; i < 2000; i++) {
        progress_tiles(&progress, 9);
        progress_step(&progress, i);
        progress_repeat(&progress, 0, 0, i, NAN);
        progress_repeat(&progress, 0, i / 2, i, 1e-3 * i);
        if (i == 1000) made = pthread_create(&watch, NULL, answer, &progress) == 0;
        if (i % 100 == 0) rest_ms(1);
    }
    if (made) pthread_join(watch, NULL);
    double seconds = now_s() - begun;
    progress_end(&progress);
    let_go(&caught);
    assert_true(made);
    assert_true(seconds < 30); /* it would wait for ever */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_fits_any_width),
        cmocka_unit_test(phases_have_their_words),
        cmocka_unit_test(bytes_are_told_where_they_are_many),
        cmocka_unit_test(the_least_important_goes_first),
        cmocka_unit_test(names_move_no_cursor),
        cmocka_unit_test(what_is_left_follows_what_was_measured),
        cmocka_unit_test(what_is_left_is_never_nonsense),
        cmocka_unit_test(repeats_have_a_pace),
        cmocka_unit_test(time_is_booked_on_the_run_in_hand),
        cmocka_unit_test(a_heartbeat_while_a_run_lasts),
        cmocka_unit_test(nothing_is_drawn_where_none_is_wanted),
        cmocka_unit_test(a_signal_is_answered_with_what_is_in_hand),
        cmocka_unit_test(a_full_pipe_holds_up_nothing),
    };
    return cmocka_run_group_tests_name("progress", tests, make_seed, NULL);
}
