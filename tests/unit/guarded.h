/* guarded.h - for test_kernels_random.c: an operand in a device's memory, with a guard zone before and behind it.
 *
 *     allocation   | guard | shift | payload        | guard |        payload: exactly the operand's bytes; it begins
 *                                                                    on 256 bytes, as the stream's operands do
 *
 * The guards lie directly against the payload and hold a pattern, so a launch that writes there is detected. A tool
 * that watches allocations, such as compute-sanitizer's memcheck, cannot see an overrun that ends in a guard. For such
 * tools operands are allocated `exact`: each in an allocation of its own, without guards. */
#include "../../runner/stream/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define GUARD   INT64_C(16384) /* bytes */
#define PATTERN 0xa5

struct guarded {
    struct device *device;
    bool exact;
    char *allocation; /* `capacity` bytes of the device's memory */
    char *payload;    /* in `allocation`: what a kernel is given */
    char *host;       /* as many bytes as the payload: its expected contents, or those to upload */
    char *seen;       /* as many, plus 2 GUARD: the payload as downloaded, then both guards */
    int64_t capacity, bytes;
};

static char guarded_context[512]; /* the case being tried, for the message about a device that fails */

static void device_call(enum status status, const struct error *error) {
    if (status != STATUS_OK) fail_msg("%s: %s", guarded_context, error->text);
}
/* Calls device->operations->NAME(device, ...); a device that fails ends the test. */
#define DEVICE(device, name, ...)                                                                                      \
    do {                                                                                                               \
        struct error error_ = {.status = STATUS_OK};                                                                   \
        device_call((device)->operations->name((device), __VA_ARGS__, &error_), &error_);                              \
    } while (0)

static void device_wait(struct device *device) {
    struct error error = {.status = STATUS_OK};
    device_call(device->operations->synchronize(device, &error), &error);
}

static void guarded_release(struct guarded *guarded) {
    struct device *device = guarded->device;
    if (guarded->allocation) device->operations->release(device, guarded->allocation);
    if (guarded->host) device->operations->release_host(device, guarded->host);
    if (guarded->seen) device->operations->release_host(device, guarded->seen);
    *guarded = (struct guarded){.device = device, .exact = guarded->exact};
}

/* Makes room for an operand of so many bytes, at `shift` times the device's alignment of 256 bytes. Keeps an allocation
 * that is large enough. */
static void guarded_resize(struct guarded *guarded, int64_t bytes, int64_t shift) {
    struct device *device = guarded->device;
    int64_t margin = guarded->exact ? 0 : 2 * GUARD + 16 * 256, wanted = bytes > 0 ? bytes : 1;
    if (guarded->exact || wanted + margin > guarded->capacity) {
        guarded_release(guarded);
        guarded->capacity = guarded->exact ? wanted : 2 * (wanted + margin);
        DEVICE(device, allocate, guarded->capacity, (void **)&guarded->allocation);
        DEVICE(device, allocate_host, guarded->capacity, (void **)&guarded->host);
        DEVICE(device, allocate_host, guarded->capacity + 2 * GUARD, (void **)&guarded->seen);
    }
    guarded->bytes = bytes;
    guarded->payload = guarded->allocation + (guarded->exact ? 0 : GUARD + shift % 16 * 256);
}

/* The copies of both guards to or from `host`, GUARD bytes each, one after the other. */
static struct copy guards_of(const struct guarded *guarded, void *host, bool up) {
    char *first = guarded->payload - GUARD;
    int64_t apart = GUARD + guarded->bytes;
    if (up) return (struct copy){first, host, GUARD, 2, apart, GUARD};
    return (struct copy){host, first, GUARD, 2, GUARD, apart};
}

/* Starts setting the guards and, if asked for, uploading `host` to the payload; done after the next device_wait. */
static void guarded_upload(struct guarded *guarded, bool payload) {
    static char pattern[2 * GUARD];
    struct copy copy = {guarded->payload, guarded->host, guarded->bytes, 1, guarded->bytes, guarded->bytes};
    if (payload && guarded->bytes > 0) DEVICE(guarded->device, copy, &copy, QUEUE_UPLOAD);
    if (guarded->exact) return;
    if (pattern[0] == 0) memset(pattern, PATTERN, sizeof pattern);
    struct copy guards = guards_of(guarded, pattern, true);
    DEVICE(guarded->device, copy, &guards, QUEUE_UPLOAD);
}

/* Starts downloading the guards and, if asked for, the payload; done after the next device_wait. */
static void guarded_download(struct guarded *guarded, bool payload) {
    struct copy copy = {guarded->seen, guarded->payload, guarded->bytes, 1, guarded->bytes, guarded->bytes};
    if (payload && guarded->bytes > 0) DEVICE(guarded->device, copy, &copy, QUEUE_DOWNLOAD);
    if (guarded->exact) return;
    struct copy guards = guards_of(guarded, guarded->seen + guarded->capacity, false);
    DEVICE(guarded->device, copy, &guards, QUEUE_DOWNLOAD);
}

/* The number of bytes in the guards that changed. `from`: the offset of the first one, from the payload's begin if
 * negative, else from its end. */
static int64_t guarded_strays(const struct guarded *guarded, int64_t *from) {
    const char *guards = guarded->seen + guarded->capacity;
    int64_t strays = 0;
    if (guarded->exact || (guards[0] == (char)PATTERN && memcmp(guards, guards + 1, 2 * GUARD - 1) == 0)) return 0;
    for (int64_t i = 0; i < 2 * GUARD; i++)
        if (guards[i] != (char)PATTERN && strays++ == 0) *from = i - GUARD;
    return strays;
}

/* Is the payload as it was uploaded? */
static bool guarded_same(const struct guarded *guarded) {
    return guarded->bytes == 0 || memcmp(guarded->seen, guarded->host, (size_t)guarded->bytes) == 0;
}
