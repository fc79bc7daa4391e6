/* json.h - writes JSON strings and members of objects. */
#ifndef RUNNER_JSON_H
#define RUNNER_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Writes `length` bytes of text as a quoted JSON string. It escapes quotes, backslashes and control characters; other
 * characters stay as they are. JSON is UTF-8, so a byte that is not part of a UTF-8 character becomes U+FFFD. */
void json_write_string(FILE *to, const char *text, size_t length);
/* Writes a member of an object, whose value is a text, after `before`, "{" or ", ". `key` needs no escapes. */
void json_write_text(FILE *to, const char *before, const char *key, const char *text);
/* Writes a member whose value is a number of `digits` significant digits, after ", ". A number that is not finite
 * becomes null. */
void json_write_number(FILE *to, const char *key, double value, int digits);

#endif
