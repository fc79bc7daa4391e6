/* spelling.h - proposes the name that a misspelt word may mean. */
#ifndef RUNNER_SPELLING_H
#define RUNNER_SPELLING_H

/* The entry of `names` nearest to `word` by edit distance, else the first that begins with `word`, of at least 3
 * characters. NULL: no entry is near enough for a typing mistake. */
const char *nearest_name(const char *word, const char *const names[], int count);
/* Writes " (did you mean 'NAME'?)" with the nearest entry into `text` and returns `text`; returns `otherwise` if no
 * entry is near. */
#define HINT_TEXT 96
const char *name_hint(const char *word, const char *const names[], int count, const char *otherwise,
                      char text[HINT_TEXT]);

#endif
