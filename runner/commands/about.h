/* about.h - prints texts about the program itself. */
#ifndef RUNNER_COMMANDS_ABOUT_H
#define RUNNER_COMMANDS_ABOUT_H

#include "command.h"

/* Returns the command for the first word of a command line, if that is `help`, `--help`, `--version` or one of the
 * hidden flags by which the build makes documents; else NULL. */
const struct command *about_find(const char *word);

#endif
