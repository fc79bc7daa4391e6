/* limits_file.h - stores the measured limits of a device in a file, for later processes.
 *
 *     $XDG_CACHE_HOME/tilerun/HOST-DEVICE-PROGRAM.limits      else $HOME/.cache/tilerun/...
 *
 * The file is text, one number or rate per line, and ends in a checksum. It is valid for the program that wrote it, on
 * the same host, with the same device and number of threads. An invalid, damaged or unreadable file counts as
 * missing. */
#ifndef RUNNER_LIMITS_FILE_H
#define RUNNER_LIMITS_FILE_H

#include "../stream/device.h"

/* Loads the limits of a device; NULL: there are none. `program` identifies the build. The caller frees with
 * limits_free. */
struct device_limits *limits_load(const struct device_facts *facts, const char *program);

/* Stores limits: writes a temporary file, then renames it. Removes files of other builds that are weeks old. false: it
 * failed, with errno set; no temporary file is left. */
bool limits_save(const struct device_facts *facts, const char *program, const struct device_limits *limits);

/* The path of the device's file; NULL: neither XDG_CACHE_HOME nor HOME is set. The caller frees. */
char *limits_path(const struct device_facts *facts, const char *program);

#endif
