/* text.h - text for people: spelling hints, sizes, times, display widths, line breaks, and cleaning of text that
 * comes from other programs' files. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The entry of `names` nearest to `word` by edit distance; NULL: none is near enough to be a typing mistake. */
const char *nearest_name(const char *word, const char *const names[], int count);

/* Writes a size, "1.5 GiB", into `text` and returns it. */
const char *size_text(double bytes, char text[32]);
/* Writes a duration with its unit, "1.23 ms", "45.6 s", "3.2 h", into `text` and returns it. */
const char *duration_text(double seconds, char text[32]);

/* The length in bytes of the UTF-8 character at `text`, where `length` bytes are left; 0: not valid UTF-8. */
int utf8_length(const char *text, size_t length);
/* Does the environment's locale (LC_ALL, LC_CTYPE, LANG) say that the terminal shows UTF-8? */
bool text_utf8(void);

/* The length in bytes of the character at `text` if it is safe to print; 0: it is a control character, a bidirectional
 * control, or not UTF-8. */
int text_shown(const char *text, size_t length);
/* The code point of a character of at most three bytes; all unsafe characters are that short. */
unsigned text_code(const char *text, int size);
/* A cleaned copy, safe to print on one line: a newline or tab becomes a space, an unsafe character `?`. The caller
 * frees. */
char *text_clean(const char *text);
/* As fprintf of a line or a part of it, but cleaned except for a final newline: messages may quote texts from untrusted
 * files. */
void text_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As text_print, to stderr. */
void text_print_stderr(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "tilerun: " and a message of one or a few lines to stderr, cleaned except for its newlines. */
void text_print_message(const char *text);

/* The columns that a text takes on a terminal: combining characters take none, East Asian characters two. */
int text_width(const char *text);
/* The length in bytes of the longest prefix of `text` that fits into `width` columns. */
size_t text_fitting(const char *text, int width);
/* Prints a cleaned text, wrapped at spaces where possible, in lines of at most `room` columns (0: one line), each after
 * `indent` spaces. */
void text_print_wrapped(const char *text, int indent, int room, FILE *to);
/* Prints a cleaned text and escapes the characters that Markdown would interpret. */
void text_print_markdown(const char *text, FILE *to);

#endif
