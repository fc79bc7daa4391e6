/* texts.h - lists of texts. */
#ifndef RUNNER_TEXTS_H
#define RUNNER_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

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
void texts_add(struct texts *texts, char *text); /* the list owns `text` from now on */
void texts_clear(struct texts *texts);

#endif
