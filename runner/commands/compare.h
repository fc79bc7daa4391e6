/* compare.h - what compare and reproduce share. */
#ifndef RUNNER_COMMANDS_COMPARE_H
#define RUNNER_COMMANDS_COMPARE_H

#include <stdbool.h>

#define COMMAND_THRESHOLD 0.03 /* the default of --threshold */

/* Parses "5%" or "0.05". false: it is neither, or not from 0 to 10. */
bool command_threshold(const char *text, double *threshold);

#endif
