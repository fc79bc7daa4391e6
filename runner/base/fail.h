/* fail.h - how anything that can go wrong says so.
 *
 * A function that can fail returns an `enum status` (0 is good) and takes a `struct error *` that it fills, once, with
 * a sentence. Nobody prints and nobody exits on the way up: main prints `error.text` and returns the status, or, where
 * a run may fail while the job goes on, the sentence becomes that run's `message`. */
#ifndef RUNNER_FAIL_H
#define RUNNER_FAIL_H

/* The exit codes of the program. */
enum status {
    STATUS_OK = 0,
    STATUS_RUN = 1,          /* it ran, but a run failed, was wrong or regressed */
    STATUS_USAGE = 2,        /* bad usage, bad job file or unusable input: nothing was run or written */
    STATUS_IO = 3,           /* reading or writing failed part-way */
    STATUS_DEVICE = 4,       /* the device is missing or failed */
    STATUS_INTERRUPTED = 75, /* a signal: `--resume` continues */
    STATUS_MEMORY = 256      /* the device's memory is full: smaller tiles may do. Never seen outside: it becomes 4 */
};

struct error {
    enum status status;
    char text[1024]; /* one or a few lines, no "tilerun:" in front, no newline at the end */
};

/* For a user's mistake or the world's: fills `error` unless it is filled already, and returns `status`. */
enum status fail(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For a failed call: the expression, the library's own words and file:line. `words` may be NULL.
 *     return FAIL_CALL(error, STATUS_IO, "fsync(fd)", strerror(errno)); */
#define FAIL_CALL(error, status, expression, words) fail_call(error, status, expression, words, __FILE__, __LINE__)
enum status fail_call(struct error *error, enum status status, const char *expression, const char *words,
                      const char *file, int line);

/* Passes a failure on to the caller. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status status_ = (call);                                                                                  \
        if (status_ != STATUS_OK) return status_;                                                                      \
    } while (0)

/* Memory that cannot be missing: prints and aborts when the host has none left (only for small bookkeeping; buffers for
 * data are allocated with plain malloc and checked). */
void *must_malloc(unsigned long bytes);
void *must_realloc(void *memory, unsigned long bytes);
char *must_strdup(const char *text);
/* printf into a new string that the caller frees. */
char *must_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
