/* test_device_cpu.c - the CPU device keeps the promises of device.h: order within a queue, events between queues,
 * failures. */
#include "../../runner/base/interrupt.h"
#include "../../runner/stream/device.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool machine_is_silent; /* about its caches */

/* In place of libc's; the sanitizers ask, too, before they are ready for what they check. */
#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))
UNCHECKED int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    if (machine_is_silent) return -1;
    CPU_ZERO_S(size, set);
    return (int)syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
}

long __sysconf(int name); // NOLINT(readability-redundant-declaration): not every glibc's headers declare it
UNCHECKED long sysconf(int name) {
    if (machine_is_silent && name == _SC_LEVEL3_CACHE_SIZE) return 0;
    return __sysconf(name);
}

static atomic_int begun; /* launches of the kernel below */

/* A kernel that sleeps for `count` microseconds, then copies one int; with count < 0 it fails with that code. */
static int slow_copy(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    begun++;
    if (args->count < 0) return (int)args->count;
    usleep((useconds_t)args->count);
    memcpy(args->y, args->x, sizeof(int));
    return 0;
}
static const struct kernel slow = {.name = "slow", .op = OP_SCALE, .launch = slow_copy};

static struct launch slow_launch(int64_t microseconds, const void *x, void *y) {
    return (struct launch){.op = OP_SCALE, .args.scale = {.count = microseconds, .x = x, .y = y}};
}

static struct error error;

static int open_device(void **state) {
    error = (struct error){.status = STATUS_OK};
    struct device *device;
    int status = device_cpu_open(&device, &error);
    *state = device;
    return status;
}

static int close_device(void **state) {
    struct device *device = *state;
    device->operations->close(device);
    return 0;
}

static struct event *new_event(struct device *device) {
    struct event *event;
    assert_int_equal(device->operations->event_create(device, &event, &error), STATUS_OK);
    return event;
}

static void facts_are_plausible(void **state) {
    struct device *device = *state;
    assert_string_equal(device->facts.id, "cpu");
    assert_true(device->unified);
    assert_true(device->facts.multiprocessors >= 1);
    assert_true(device->facts.memory_free > 0 && device->facts.memory_free <= device->facts.memory_total);
    assert_true(device->facts.cache_bytes > 0);
    assert_true(isnan(device->conditions(device).clock_mhz));
}

static void a_cache_is_assumed_where_none_is_told_of(void **state) {
    struct device_facts facts;
    machine_is_silent = true;
    device_cpu_facts(&facts);
    machine_is_silent = false;
    assert_int_equal(facts.cache_bytes, 32 << 20);
}

static void memory_is_aligned(void **state) {
    struct device *device = *state;
    void *memory;
    assert_int_equal(device->operations->allocate(device, 1000, &memory, &error), STATUS_OK);
    assert_int_equal((uintptr_t)memory % 256, 0);
    device->operations->release(device, memory);
}

static void too_much_memory_is_refused(void **state) {
    struct device *device = *state;
    void *memory;
    assert_int_equal(device->operations->allocate(device, INT64_MAX / 2, &memory, &error), STATUS_MEMORY);
    assert_non_null(strstr(error.text, "4611686018427387903 bytes"));
}

/* upload -> compute -> download, each ordered after the one before by an event, although the first is the slowest. */
static void events_order_queues(void **state) {
    struct device *device = *state;
    const struct device_operations *ops = device->operations;
    struct event *uploaded = new_event(device), *computed = new_event(device);
    for (int round = 1; round <= 50; round++) {
        int source = round, operand = 0, result = 0, target = 0;
        struct launch launch = slow_launch(100, &operand, &result);
        ops->copy(device, &(struct copy){&operand, &source, sizeof operand, 1, 0, 0}, QUEUE_UPLOAD, &error);
        ops->event_record(device, uploaded, QUEUE_UPLOAD, &error);
        ops->queue_wait_event(device, uploaded, QUEUE_COMPUTE, &error);
        ops->launch(device, &slow, &launch, &error);
        ops->event_record(device, computed, QUEUE_COMPUTE, &error);
        ops->queue_wait_event(device, computed, QUEUE_DOWNLOAD, &error);
        ops->copy(device, &(struct copy){&target, &result, sizeof target, 1, 0, 0}, QUEUE_DOWNLOAD, &error);
        assert_int_equal(ops->synchronize(device, &error), STATUS_OK);
        assert_int_equal(target, round);
    }
    ops->event_destroy(device, uploaded);
    ops->event_destroy(device, computed);
}

/* Copies three runs of two ints, out of rows of five into rows of three. */
static void copies_keep_their_pitches(void **state) {
    struct device *device = *state;
    int from[15], to[9];
    for (int i = 0; i < 15; i++) from[i] = i;
    for (int i = 0; i < 9; i++) to[i] = -1;
    struct copy copy = {.to = to + 1, .from = from + 2, .bytes = 2 * sizeof(int), .rows = 3};
    copy.to_pitch = 3 * sizeof(int);
    copy.from_pitch = 5 * sizeof(int);
    assert_int_equal(device->operations->copy(device, &copy, QUEUE_UPLOAD, &error), STATUS_OK);
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_OK);
    static const int expected[9] = {-1, 2, 3, -1, 7, 8, -1, 12, 13};
    assert_memory_equal(to, expected, sizeof to);
}

static void an_event_never_recorded_has_passed(void **state) {
    struct device *device = *state;
    struct event *event = new_event(device);
    assert_int_equal(device->operations->event_wait(device, event, &error), STATUS_OK);
    assert_int_equal(device->operations->queue_wait_event(device, event, QUEUE_DOWNLOAD, &error), STATUS_OK);
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_OK);
    device->operations->event_destroy(device, event);
}

static void events_tell_time(void **state) {
    struct device *device = *state;
    const struct device_operations *ops = device->operations;
    struct event *begin = new_event(device), *end = new_event(device);
    int x = 1, y = 0;
    struct launch launch = slow_launch(20000, &x, &y);
    double seconds;
    assert_int_equal(ops->event_elapsed(device, begin, end, &seconds, &error), STATUS_DEVICE);
    ops->event_record(device, begin, QUEUE_COMPUTE, &error);
    ops->launch(device, &slow, &launch, &error);
    ops->event_record(device, end, QUEUE_COMPUTE, &error);
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(ops->event_wait(device, end, &error), STATUS_OK);
    assert_int_equal(ops->event_elapsed(device, begin, end, &seconds, &error), STATUS_OK);
    assert_true(seconds >= 0.02);
    ops->event_destroy(device, begin);
    ops->event_destroy(device, end);
}

static void a_failed_kernel_is_told_once(void **state) {
    struct device *device = *state;
    int x = 1, y = 0;
    struct launch launch = slow_launch(-7, &x, &y);
    assert_int_equal(device->operations->launch(device, &slow, &launch, &error), STATUS_OK);
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_RUN);
    assert_string_equal(error.text, "kernel 'slow' failed on the CPU with code -7");
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_OK);
}

/* The launch under way ends normally; the one after it does not begin. */
static void a_signal_empties_the_queue(void **state) {
    struct device *device = *state;
    int x = 1, first = 0, second = 0;
    struct launch under_way = slow_launch(50000, &x, &first), waiting = slow_launch(0, &x, &second);
    begun = 0;
    assert_int_equal(device->operations->launch(device, &slow, &under_way, &error), STATUS_OK);
    assert_int_equal(device->operations->launch(device, &slow, &waiting, &error), STATUS_OK);
    while (begun == 0) usleep(100);
    interrupt_request(15);
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_INTERRUPTED);
    interrupt_request(0);
    assert_int_equal(first, 1);
    assert_int_equal(second, 0);
    assert_int_equal(begun, 1);
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_OK);
}

static void zero_and_flush_work(void **state) {
    struct device *device = *state;
    char memory[300];
    memset(memory, 1, sizeof memory);
    assert_int_equal(device->operations->fill(device, memory, 0, 200, &error), STATUS_OK);
    assert_int_equal(device->operations->flush_cache(device, &error), STATUS_OK);
    assert_int_equal(device->operations->synchronize(device, &error), STATUS_OK);
    assert_int_equal(memory[199], 0);
    assert_int_equal(memory[200], 1);
}

static void a_cache_that_cannot_be_flushed(void **state) {
    struct device *device = *state;
    device->facts.cache_bytes = INT64_MAX / 4; /* twice of which no memory has room for */
    assert_int_equal(device->operations->flush_cache(device, &error), STATUS_MEMORY);
    assert_non_null(strstr(error.text, " bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_are_plausible, open_device, close_device),
        cmocka_unit_test(a_cache_is_assumed_where_none_is_told_of),
        cmocka_unit_test_setup_teardown(memory_is_aligned, open_device, close_device),
        cmocka_unit_test_setup_teardown(too_much_memory_is_refused, open_device, close_device),
        cmocka_unit_test_setup_teardown(events_order_queues, open_device, close_device),
        cmocka_unit_test_setup_teardown(copies_keep_their_pitches, open_device, close_device),
        cmocka_unit_test_setup_teardown(an_event_never_recorded_has_passed, open_device, close_device),
        cmocka_unit_test_setup_teardown(events_tell_time, open_device, close_device),
        cmocka_unit_test_setup_teardown(a_failed_kernel_is_told_once, open_device, close_device),
        cmocka_unit_test_setup_teardown(a_signal_empties_the_queue, open_device, close_device),
        cmocka_unit_test_setup_teardown(zero_and_flush_work, open_device, close_device),
        cmocka_unit_test_setup_teardown(a_cache_that_cannot_be_flushed, open_device, close_device),
    };
    return cmocka_run_group_tests_name("device_cpu", tests, NULL, NULL);
}
