/* status.h - defines the status of a call, for operations and the runner alike. runner/base/fail.h explains its use. */
#ifndef KERNELS_STATUS_H
#define KERNELS_STATUS_H

/* The exit codes of the program. */
enum status {
    STATUS_OK = 0,
    STATUS_RUN = 1,          /* a run failed, was wrong or regressed */
    STATUS_USAGE = 2,        /* bad usage, bad job file or unusable input: nothing was run or written */
    STATUS_IO = 3,           /* reading or writing failed */
    STATUS_DEVICE = 4,       /* the device is missing or failed */
    STATUS_INTERRUPTED = 75, /* a signal: `--resume` continues */
    STATUS_MEMORY = 256,     /* the device's memory is full: smaller tiles may fit. Never an exit code: it becomes 4 */
    STATUS_TIMEOUT = 257 /* a run takes longer than its timeout. Never an exit code: it is recorded in the run's row */
};

struct error {
    enum status status;
    const char *key; /* the job's key whose value is wrong, such as "axis"; NULL: another mistake, or unknown */
    int item;        /* the number of the wrong entry in the key's list */
    char text[1024]; /* one or a few lines, without "tilerun:" in front and without a newline at the end */
};

/* Reports a mistake of the user or a failure outside the program: fills `error` unless it holds an error already, and
 * returns `status`. */
enum status fail(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like fail, but with STATUS_USAGE for a mistake in entry `item` of a job's `key`. */
enum status fail_key(struct error *error, const char *key, int item, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns the status of a call to the caller, unless it is STATUS_OK. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status status_ = (call);                                                                                  \
        if (status_ != STATUS_OK) return status_;                                                                      \
    } while (0)

#endif
