/* text.h - makes text for people: sizes and times with units, display widths, line breaks. Cleans text that comes from
 * other programs' files. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- numbers ---- */

/* Writes a size, "1.5 GiB", into `text` and returns it. */
const char *size_text(double bytes, char text[32]);
/* Writes an element's value, "0.5" or "nan" without a sign, into `text` and returns it. */
const char *value_text(double value, char text[32]);
/* Writes a duration with its unit, "1.23 ms", "45.6 s", "3.2 h", into `text` and returns it. */
const char *duration_text(double seconds, char text[32]);

/* ---- names and UTF-8 ---- */

/* The length of the name that begins at `text`: a letter or '_', then letters, digits, '_'. 0: `text` does not begin
 * with a name. */
int text_name_length(const char *text);
/* Is the whole text such a name? */
bool text_is_name(const char *text);

/* The length in bytes of the UTF-8 character at the beginning of the `length` bytes `text`; 0: not valid UTF-8. */
int utf8_length(const char *text, size_t length);
/* The first byte of a text that is not UTF-8; NULL: the whole text is UTF-8. */
const char *text_not_utf8(const char *text);
/* Does the environment's locale (LC_ALL, LC_CTYPE, LANG) say that the terminal shows UTF-8? */
bool text_utf8(void);

/* ---- cleaning ---- */

/* The length in bytes of the character at `text` if it is safe to print; 0: it is a control character, a bidirectional
 * control, a line or paragraph separator, or not UTF-8. */
int text_shown(const char *text, size_t length);
/* The code point of the UTF-8 character at `text`, which has `size` bytes, 1 to 4. */
unsigned text_code(const char *text, int size);
/* A cleaned copy, safe to print on one line: a newline or tab becomes a space, an unsafe character `?`. The caller
 * frees. */
char *text_clean(const char *text);
/* Like fprintf of a line or a part of it, but cleans the text, except for a newline that ends the format too: messages
 * may quote texts from untrusted files. */
void text_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like text_print, to stderr. */
#define text_print_stderr(...) text_print(stderr, __VA_ARGS__)
/* Prints "tilerun: " and a message of one or a few lines to stderr, cleaned except for its newlines. */
void text_print_message(const char *text);

/* ---- widths ---- */

/* The columns that a text takes on a terminal: combining characters take none, East Asian characters two. */
int text_width(const char *text);
/* The length in bytes of the longest prefix of `text` that fits into `width` columns. */
size_t text_fitting(const char *text, int width);
/* A copy that is at most `width` columns wide: the middle of a longer text is replaced by `~`. The caller frees. */
char *text_cut(const char *text, int width);
/* Prints a cleaned text, wrapped at spaces if possible, in lines of at most `max_width` columns (0: one line), each
 * after `indent` spaces. */
void text_print_wrapped(const char *text, int indent, int max_width, FILE *to);
/* ---- other formats ---- */

/* A word as a shell reads it back, in single quotes if it needs them. The caller frees. */
char *text_shell_word(const char *word);
/* Do stdout and stderr go to one file or pipe (`> log 2>&1`), and not to a terminal? */
bool text_is_log(void);
/* Prints a text as a cell of CSV, in quotes if it needs them. Newlines and tabs stay; characters that are not safe to
 * print become `?`. */
void text_print_csv(const char *text, size_t length, FILE *to);
/* Prints a cleaned text and escapes the characters that Markdown would interpret. */
void text_print_markdown(const char *text, FILE *to);

#endif
