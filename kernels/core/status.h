/* status.h - whether a call succeeded: what operations and the runner share of error handling. runner/base/fail.h
 * explains its use. */
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
    STATUS_MEMORY = 256      /* the device's memory is full: smaller tiles may fit. Internal: it becomes 4 */
};

struct error {
    enum status status;
    char text[1024]; /* one or a few lines, no "tilerun:" in front, no newline at the end */
};

/* For a mistake of the user or a failure outside the program: fills `error` unless it is filled already, and returns
 * `status`. */
enum status fail(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Passes a failure on to the caller. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status status_ = (call);                                                                                  \
        if (status_ != STATUS_OK) return status_;                                                                      \
    } while (0)

#endif
