/* poison.c - fills the output of an untrusted kernel with a known pattern before a launch, and checks afterwards that
 * the kernel wrote all of it and nothing beyond it. Also compares outputs of timed launches with the verified one. */
#include "poison.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../compile/replay.h"

#include <stdlib.h>
#include <string.h>

/* If sums are added in another order, an element may differ by this share of the largest magnitude. */
#define ORDER_PART 1e-4

bool poison_wanted(const struct kernel *kernel) {
    return kernel && kernel->user_kernel;
}

enum status poison_fill(struct device *device, const struct poisoned *out, struct error *error) {
    if (!out->memory) return STATUS_OK;
    return device->operations->fill(device, (char *)out->memory - POISON_GUARD, POISON,
                                    out->buffer_bytes + 2 * POISON_GUARD, error);
}

/* Copies between the device and the host; waits for the device before and after. */
static enum status transfer(struct device *device, enum queue queue, const void *from, int64_t bytes, void *to,
                            struct error *error) {
    const struct copy copy = {
        .to = to, .from = from, .bytes = bytes, .rows = 1, .to_pitch = bytes, .from_pitch = bytes};
    TRY(device->operations->synchronize(device, error));
    if (bytes > 0) TRY(device->operations->copy(device, &copy, queue, error));
    return device->operations->synchronize(device, error);
}

/* Copies bytes of the output's buffer to the host, from `offset` on. */
static enum status copy_out(struct device *device, const struct poisoned *out, int64_t offset, int64_t bytes, void *to,
                            struct error *error) {
    return transfer(device, QUEUE_DOWNLOAD, (const char *)out->memory + offset, bytes, to, error);
}

enum status poison_check(struct device *device, const struct poisoned *out, struct error *error) {
    unsigned char zone[POISON_GUARD];
    if (!out->memory) return STATUS_OK;
    TRY(copy_out(device, out, out->bytes, sizeof zone, zone, error));
    for (int i = 0; i < POISON_GUARD; i++)
        if (zone[i] != POISON)
            return i == 0
                       ? fail(error, STATUS_RUN, "the kernel has written beyond its output, directly behind the end")
                       : fail(error, STATUS_RUN, "the kernel has written beyond its output, %d byte%s behind the end",
                              i, i == 1 ? "" : "s");
    TRY(copy_out(device, out, -POISON_GUARD, sizeof zone, zone, error));
    for (int i = POISON_GUARD; i > 0; i--)
        if (zone[i - 1] != POISON)
            return fail(error, STATUS_RUN, "the kernel has written before its output, %d bytes from its beginning",
                        POISON_GUARD - i + 1);
    return STATUS_OK;
}

enum status poison_keep(struct device *device, const struct poisoned *out, void **copy, struct error *error) {
    *copy = out->memory ? try_malloc((size_t)out->bytes + 1) : NULL;
    return *copy ? copy_out(device, out, 0, out->bytes, *copy, error) : STATUS_OK;
}

/* The largest finite magnitude of `count` elements. */
static double largest_of(const struct poisoned *out, const void *data, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = fabs(dtype_load(out->dtype, data, i));
        if (isfinite(value) && value > largest) largest = value;
    }
    return largest;
}

/* The first element that differs, for floats by more than another order of sums may change; -1: there is no such
 * element. */
static int64_t find_difference(const struct poisoned *out, const void *expected, const void *now) {
    int64_t count = out->bytes / (int64_t)dtype_size(out->dtype);
    if (memcmp(expected, now, (size_t)out->bytes) == 0) return -1;
    bool is_float = dtype_is_float(out->dtype);
    double part = fmax(ORDER_PART, 16 * dtype_epsilon(out->dtype));
    double allowed = is_float ? part * largest_of(out, expected, count) : 0;
    size_t size = dtype_size(out->dtype);
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)i * size;
        if (memcmp((const char *)expected + at, (const char *)now + at, size) == 0) continue;
        if (!is_float) return i;
        double a = dtype_load(out->dtype, expected, i), b = dtype_load(out->dtype, now, i);
        if (!(fabs(a - b) <= allowed) && !(isnan(a) && isnan(b)) && a != b) return i;
    }
    return -1;
}

enum status poison_compare(struct device *device, const struct poisoned *out, const void *expected,
                           struct error *error) {
    char value[32], verified[32];
    OWNED void *now = NULL;
    if (!out->memory) return STATUS_OK;
    TRY(poison_check(device, out, error));
    if (!expected) return STATUS_OK;
    TRY(poison_keep(device, out, &now, error));
    int64_t at = now ? find_difference(out, expected, now) : -1;
    if (at < 0) return STATUS_OK;
    return fail(error, STATUS_RUN,
                "a timed launch gave another result than the verified one: element %lld is %s instead of %s",
                (long long)at, value_text(dtype_load(out->dtype, now, at), value),
                value_text(dtype_load(out->dtype, expected, at), verified));
}

/* Uploads the changed first input in[0] and launches. Downloads the second input to in[1] and the result to `got`. */
static enum status launch_changed(struct device *device, const struct kernel *kernel, const struct launch *launch,
                                  const struct replay *replay, const struct poisoned *out, void *const in[2], void *got,
                                  struct error *error) {
    struct launch again = *launch;
    TRY(transfer(device, QUEUE_UPLOAD, in[0], replay->in_bytes[0], (void *)*replay->in[0], error));
    if (replay->in[1]) /* it may share memory with the first */
        TRY(transfer(device, QUEUE_DOWNLOAD, *replay->in[1], replay->in_bytes[1], in[1], error));
    TRY(poison_fill(device, out, error));
    TRY(device->operations->launch(device, kernel, &again, error));
    return copy_out(device, out, 0, out->bytes, got, error);
}

enum status poison_replay(struct device *device, const struct kernel *kernel, const struct launch *launch,
                          const struct poisoned *out, struct error *error) {
    struct replay replay;
    OWNED void *result = NULL;
    if (!out->memory || !replay_make(launch, &replay)) return STATUS_OK;
    void *const first = (void *)*replay.in[0];
    size_t bytes = (size_t)replay.in_bytes[0], out_bytes = (size_t)out->bytes;
    OWNED void *a = try_malloc(bytes + 1), *b = try_malloc((size_t)replay.in_bytes[1] + 1);
    OWNED void *before = try_malloc(bytes + 1), *got = try_malloc(out_bytes + 1), *right = try_malloc(out_bytes + 1);
    TRY(poison_keep(device, out, &result, error));
    if (!a || !b || !before || !got || !right || !result) return STATUS_OK;
    TRY(transfer(device, QUEUE_DOWNLOAD, first, replay.in_bytes[0], before, error));
    void *in[2] = {a, b};
    memcpy(a, before, bytes);
    replay_change(launch->dtype, a, replay.in_bytes[0]);
    enum status status = launch_changed(device, kernel, launch, &replay, out, in, got, error);
    transfer(device, QUEUE_UPLOAD, before, replay.in_bytes[0], first, status ? IGNORED : error);
    transfer(device, QUEUE_UPLOAD, result, out->bytes, out->memory, status ? IGNORED : error);
    *replay.in[0] = a;
    if (replay.in[1]) *replay.in[1] = b;
    *replay.out = right;
    TRY(status ? status : error->status);
    return replay_judge(&replay, got, out->dtype, out->bytes, error);
}
