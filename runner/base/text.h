/* text.h - words for people, hints and sizes, and the characters that text is made of. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

#include <stddef.h>

/* The entry of `names` nearest to `word` by edit distance, if near enough to be a typing mistake; else NULL. */
const char *nearest_name(const char *word, const char *const names[], int count);

/* "1.5 GiB"; into `text`, which is returned. */
const char *size_text(double bytes, char text[32]);

/* Bytes of the UTF-8 character at `text`, of which `length` bytes are left; 0: not valid UTF-8. */
int utf8_length(const char *text, size_t length);

#endif
