/* text.h - words for people, hints, sizes and times, and the characters that text is made of: how wide they are, where
 * a line breaks. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The entry of `names` nearest to `word` by edit distance, if near enough to be a typing mistake; else NULL. */
const char *nearest_name(const char *word, const char *const names[], int count);

/* "1.5 GiB"; into `text`, which is returned. */
const char *size_text(double bytes, char text[32]);
/* Three digits and a unit: "1.23 ms", "45.6 s", "3.2 h"; into `text`, which is returned. */
const char *duration_text(double seconds, char text[32]);

/* Bytes of the UTF-8 character at `text`, of which `length` bytes are left; 0: not valid UTF-8. */
int utf8_length(const char *text, size_t length);
/* Does the environment's locale (LC_ALL, LC_CTYPE, LANG) say that the terminal shows UTF-8? */
bool text_utf8(void);

/* Bytes of the character at `text` if a terminal can be trusted with it; 0: it is a control character, one that turns
 * the direction of what follows, or not UTF-8. */
int text_shown(const char *text, size_t length);
/* The number of a character of at most three bytes, as all have that are not shown. */
unsigned text_code(const char *text, int size);
/* A copy that a terminal can show in one line: a newline or tab becomes a space; what text_shown does not trust
 * becomes `?`. The caller frees. */
char *text_clean(const char *text);
/* fprintf of a line or a part of one, clean but for a newline at its end: texts of other people's files end up in
 * messages. */
void text_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same on stderr. */
void text_print_stderr(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A message of one or a few lines on stderr, clean but for their ends. */
void text_print_message(const char *text);

/* The columns that a text takes on a terminal: accents that join a letter take none, East Asian characters two. */
int text_width(const char *text);
/* The bytes of the longest beginning of `text` that takes at most `width` columns. */
size_t text_fitting(const char *text, int width);
/* Prints a text, clean, as lines of at most `room` columns (0: as one line), each after `indent` spaces and broken at a
 * space where that can be. */
void text_print_wrapped(const char *text, int indent, int room, FILE *to);
/* Prints a text, clean, with escapes for what Markdown would take for its own. */
void text_print_markdown(const char *text, FILE *to);

#endif
