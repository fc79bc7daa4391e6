/* test_trace.c - the timeline: what its file contains, in whatever order spans come and from however many threads. */
#include "../../runner/base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runner/base/clock.h"

static char path[] = "/tmp/test_trace.XXXXXX";
static struct error error;

static struct trace *begin(void) {
    struct trace *trace;
    assert_int_equal(trace_open(path, false, &trace, &error), STATUS_OK);
    return trace;
}

/* Ends the trace and returns its file's text, which the caller frees. */
static char *end(struct trace *trace) {
    assert_int_equal(trace_close(trace, &error), STATUS_OK);
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    assert_non_null(file);
    assert_true(getdelim(&text, &room, '\0', file) > 0);
    fclose(file);
    return text;
}

static int count(const char *text, const char *words) {
    int found = 0;
    for (; (text = strstr(text, words)); text += strlen(words)) found++;
    return found;
}

static void assert_holds(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("no %s in %s", words, text);
}

static void spans_have_their_run_stage_and_slot(void **state) {
    struct trace *trace = begin();
    double now = now_s();
    trace_run(trace, "product \"a\\b\"\tnaive");
    trace_span(trace, STAGE_READ, 1, 7, 4096, now + 0.001, now + 0.003);
    trace_span(trace, STAGE_READ, 1, 8, 4096, now + 0.003, now + 0.004);
    trace_run(trace, "sum");
    trace_span(trace, STAGE_WRITE, 0, -1, 12, now, now);
    char *text = end(trace);
    assert_holds(text, "\"displayTimeUnit\":\"ms\"");
    assert_holds(text, "\"name\":\"product \\\"a\\\\b\\\"\\u0009naive\"");
    assert_holds(text, "\"name\":\"sum\"");
    assert_int_equal(count(text, "\"name\":\"process_name\""), 2);
    assert_int_equal(count(text, "\"name\":\"thread_name\""), 2); /* each once */
    assert_holds(text, "\"name\":\"read 1\"");
    assert_holds(text, "\"dur\":2000.000,\"args\":{\"step\":7,\"bytes\":4096}");
    assert_holds(text, "\"dur\":0.000,\"args\":{\"bytes\":12}"); /* it belongs to no step */
    assert_int_equal(count(text, "\"ph\":\"X\""), 3);
    free(text);
}

/* A job's inputs are read before its first run: they are a process of their own. */
static void spans_may_come_before_any_run(void **state) {
    struct trace *trace = begin();
    trace_span(trace, STAGE_INFLATE, 3, -1, 5, now_s(), now_s());
    char *text = end(trace);
    assert_holds(text, "\"name\":\"inflate 3\"");
    assert_holds(text, "\"ph\":\"X\",\"name\":\"inflate\",\"pid\":0");
    assert_int_equal(count(text, "\"name\":\"process_name\""), 1);
    free(text);
}

static void an_empty_trace_is_one(void **state) {
    char *text = end(begin());
    assert_string_equal(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n\n]}\n");
    free(text);
}

enum { THREADS = 4, SPANS = 5000 };

static void *add_spans(void *trace) {
    for (int i = 0; i < SPANS; i++) trace_span(trace, STAGE_KERNEL, i % 3, i, i, now_s(), now_s());
    return NULL;
}

static void threads_add_at_once(void **state) {
    struct trace *trace = begin();
    pthread_t threads[THREADS];
    trace_run(trace, "many");
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, add_spans, trace), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    char *text = end(trace);
    assert_int_equal(count(text, "\"ph\":\"X\""), THREADS * SPANS);
    assert_int_equal(count(text, "\"name\":\"thread_name\""), 3);
    free(text);
}

static void nobody_wants_a_null_trace(void **state) {
    trace_run(NULL, "run");
    trace_span(NULL, STAGE_READ, 0, 0, 0, 0, 1);
    assert_int_equal(trace_close(NULL, &error), STATUS_OK);
}

static void files_that_cannot_be_written_are_named(void **state) {
    struct trace *trace = NULL;
    assert_int_equal(trace_open("/nowhere/trace.json", true, &trace, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "/nowhere/trace.json"));
    error = (struct error){.status = STATUS_OK};
    if (access("/dev/full", W_OK) != 0) skip();
    assert_int_equal(trace_open("/dev/full", false, &trace, &error), STATUS_OK);
    trace_run(trace, "run");
    assert_int_equal(trace_close(trace, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "No space left"));
    error = (struct error){.status = STATUS_OK};
}

static int make_file(void **state) {
    int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_have_their_run_stage_and_slot),
        cmocka_unit_test(spans_may_come_before_any_run),
        cmocka_unit_test(an_empty_trace_is_one),
        cmocka_unit_test(threads_add_at_once),
        cmocka_unit_test(nobody_wants_a_null_trace),
        cmocka_unit_test(files_that_cannot_be_written_are_named),
    };
    return cmocka_run_group_tests_name("trace", tests, make_file, remove_file);
}
