/* json.h - text as JSON writes it; the results table, traces and the job schema all come through here. */
#ifndef RUNNER_JSON_H
#define RUNNER_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Writes `length` bytes of text as a JSON string with its quotes. Quotes, backslashes and control characters are
 * escaped; other characters stay as they are. JSON is UTF-8, so a byte that is not part of a UTF-8 character becomes
 * U+FFFD. */
void json_write_string(FILE *to, const char *text, size_t length);

#endif
