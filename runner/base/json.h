/* json.h - writes JSON strings, for the results table, traces and the job schema. */
#ifndef RUNNER_JSON_H
#define RUNNER_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Writes `length` bytes of text as a quoted JSON string. It escapes quotes, backslashes and control characters; other
 * characters stay as they are. JSON is UTF-8, so a byte that is not part of a UTF-8 character becomes U+FFFD. */
void json_write_string(FILE *to, const char *text, size_t length);

#endif
