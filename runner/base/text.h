/* text.h - words for people: hints and sizes. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

/* The entry of `names` nearest to `word` by edit distance, if near enough to be a slip of the pen; else NULL. */
const char *nearest_name(const char *word, const char *const names[], int count);

/* "1.5 GiB"; into `text`, which is returned. */
const char *size_text(double bytes, char text[32]);

#endif
