/* about.h - prints texts about the program itself. */
#ifndef RUNNER_COMMANDS_ABOUT_H
#define RUNNER_COMMANDS_ABOUT_H

#include "command.h"

/* `help`, `--help` and `--version`, and the hidden flags by which the build makes documents: each is the first word of
 * a command line. NULL: the word is none of them. */
const struct command *about_find(const char *word);

#endif
