/* text.h - makes text for people: spelling hints, sizes, times, display widths and line breaks. Cleans text that comes
 * from other programs' files. */
#ifndef RUNNER_TEXT_H
#define RUNNER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* The entry of `names` nearest to `word` by edit distance; NULL: none is near enough to be a typing mistake. */
const char *nearest_name(const char *word, const char *const names[], int count);
/* Writes " (did you mean 'NAME'?)" with the nearest entry into `text` and returns it; returns `otherwise` if none is
 * near. */
#define HINT_TEXT 96
const char *name_hint(const char *word, const char *const names[], int count, const char *otherwise,
                      char text[HINT_TEXT]);

/* Writes a size, "1.5 GiB", into `text` and returns it. */
const char *size_text(double bytes, char text[32]);
/* Writes an element's value, "0.5" or "nan" without a sign, into `text` and returns it. */
const char *value_text(double value, char text[32]);
/* Writes a duration with its unit, "1.23 ms", "45.6 s", "3.2 h", into `text` and returns it. */
const char *duration_text(double seconds, char text[32]);

/* The length of the name that begins at `text`: a letter or '_', then letters, digits, '_'; 0: none does. */
int text_name_length(const char *text);
/* Is the whole text such a name? */
bool text_is_name(const char *text);

/* Is the text one of `words`? */
bool text_is_one_of(const char *text, const char *const words[], size_t count);
#define IS_ONE_OF(text, ...)                                                                                           \
    text_is_one_of(text, (const char *const[]){__VA_ARGS__},                                                           \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Compares two texts of an array, for qsort and bsearch. */
int text_compare(const void *one, const void *other);
/* Frees an array of texts; NULL: does nothing. */
void texts_free(char **texts, int count);
/* A list of texts, which it owns; {0} is empty. Free with texts_clear. */
struct texts {
    int count;
    char **items;
};
void texts_add(struct texts *texts, char *text);
void texts_clear(struct texts *texts);

/* Reads a text from a file or pipe to its end, or until it has more than `max` bytes. Ends it with a NUL, which
 * *length (length may be NULL) does not count. NULL, with errno set: a read failed. The caller frees. */
char *text_read(int descriptor, size_t max, size_t *length);
/* Reads bytes from position `at` of a file. Returns their number, less than `bytes` only if the file ends; -1, with
 * errno set: it failed. */
ssize_t bytes_read_at(int descriptor, void *data, size_t bytes, off_t at);
/* Writes bytes from position `at` of a file on. Returns 0, or the errno of its failure. */
int bytes_write_at(int descriptor, const void *data, size_t bytes, off_t at);

/* The length in bytes of the UTF-8 character at the beginning of the `length` bytes `text`; 0: not valid UTF-8. */
int utf8_length(const char *text, size_t length);
/* The first byte of a text that is not UTF-8; NULL: all is. */
const char *text_not_utf8(const char *text);
/* Does the environment's locale (LC_ALL, LC_CTYPE, LANG) say that the terminal shows UTF-8? */
bool text_utf8(void);

/* The length in bytes of the character at `text` if it is safe to print; 0: it is a control character, a bidirectional
 * control, or not UTF-8. */
int text_shown(const char *text, size_t length);
/* The code point of the UTF-8 character at `text`, which has `size` bytes, 1 to 4. */
unsigned text_code(const char *text, int size);
/* A cleaned copy, safe to print on one line: a newline or tab becomes a space, an unsafe character `?`. The caller
 * frees. */
char *text_clean(const char *text);
/* Like fprintf of a line or a part of it, but cleans the text except for a final newline: messages may quote texts from
 * untrusted files. */
void text_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like text_print, to stderr. */
#define text_print_stderr(...) text_print(stderr, __VA_ARGS__)
/* Prints "tilerun: " and a message of one or a few lines to stderr, cleaned except for its newlines. */
void text_print_message(const char *text);

/* The columns that a text takes on a terminal: combining characters take none, East Asian characters two. */
int text_width(const char *text);
/* The length in bytes of the longest prefix of `text` that fits into `width` columns. */
size_t text_fitting(const char *text, int width);
/* A copy that is at most `width` columns wide: the middle of a longer text is replaced by `~`. The caller frees. */
char *text_cut(const char *text, int width);
/* Prints a cleaned text, wrapped at spaces if possible, in lines of at most `max_width` columns (0: one line), each
 * after `indent` spaces. */
void text_print_wrapped(const char *text, int indent, int max_width, FILE *to);
/* A word as a shell reads it back, in single quotes if it needs them. The caller frees. */
char *text_shell_word(const char *word);
/* Do stdout and stderr go to one file or pipe (`> log 2>&1`), and not to a terminal? */
bool text_is_log(void);
/* Prints a text as a cell of CSV, in quotes if it needs them; other control characters become `?`. */
void text_print_csv(const char *text, size_t length, FILE *to);
/* Prints a cleaned text and escapes the characters that Markdown would interpret. */
void text_print_markdown(const char *text, FILE *to);

#endif
