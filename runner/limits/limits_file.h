/* limits_file.h - stores the measured limits of a device in a file, for later processes.
 *
 *     $XDG_CACHE_HOME/tilerun/HOST-DEVICE-KEY.limits      else $HOME/.cache/tilerun/...
 *
 * The file is text, one number per line, and ends in a checksum. It is valid for programs with the same kernels, on the
 * same host, with the same device. For a CPU the numbers of threads, cores and bytes of cache must be equal too, so
 * that each kind of allocation on a node has its own file. An invalid, damaged or unreadable file counts as missing. */
#ifndef RUNNER_LIMITS_FILE_H
#define RUNNER_LIMITS_FILE_H

#include "../stream/device.h"

/* Identifies the kernels that measure a kind of device and the code that times them, for `program` below. It does not
 * change with the rest of the program. */
const char *limits_program(enum kernel_device kind);

/* Loads the limits of a device; NULL: there are none. The caller frees with limits_free. */
struct device_limits *limits_load(const struct device_facts *facts, const char *program);

/* Stores limits: writes a temporary file, then renames it. Removes files of other builds that are weeks old. false: the
 * limits are not stored, errno says why, and no temporary file is left. */
bool limits_save(const struct device_facts *facts, const char *program, const struct device_limits *limits);

/* If a run proves a roof too low (limits_raise in plan/limits.h), raises it in `limits` and in the stored limits, which
 * another process may have raised meanwhile. true: the roof was raised, and `text` has it: "float32 97.3 GFLOP/s". */
bool limits_prove(const struct device_facts *facts, const char *program, struct device_limits *limits,
                  const struct kernel *kernel, const struct geometry *geometry, double seconds, char text[64]);

/* Waits until no other process measures this device, but for 10 s at most, and not on a file system without locks.
 * Returns a descriptor whose closing lets the next process measure; -1: there is no cache folder. */
int limits_lock(const struct device_facts *facts, const char *program);

/* The path of the device's file; NULL: neither XDG_CACHE_HOME nor HOME is set. The caller frees. */
char *limits_path(const struct device_facts *facts, const char *program);

#endif
