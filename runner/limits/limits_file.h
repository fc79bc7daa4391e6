/* limits_file.h - the measured limits of a device, kept from one process to the next.
 *
 *     $XDG_CACHE_HOME/tilerun/HOST-DEVICE-PROGRAM.limits      else $HOME/.cache/tilerun/...
 *
 * The file is text, a number or a rate to a line, and ends in a checksum. It is of use to the program that wrote it, on
 * the same host, with the same device and as many threads. One that is not, that is damaged or cannot be read is as
 * good as none. */
#ifndef RUNNER_LIMITS_FILE_H
#define RUNNER_LIMITS_FILE_H

#include "../stream/device.h"

/* The limits that were kept of a device; NULL: none. `program` names the build. The caller frees with limits_free. */
struct device_limits *limits_load(const struct device_facts *facts, const char *program);

/* Keeps limits: writes a file under another name, then renames it. Removes what other builds left weeks ago. false: it
 * could not, with errno; nothing is left behind. */
bool limits_save(const struct device_facts *facts, const char *program, const struct device_limits *limits);

/* The path of the device's file; NULL: the environment names no folder. The caller frees. */
char *limits_path(const struct device_facts *facts, const char *program);

#endif
