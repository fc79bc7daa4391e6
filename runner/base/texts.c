/* texts.c - searches, compares and frees lists of texts. */
#include "texts.h"

#include "fail.h"
#include <stdlib.h>
#include <string.h>

bool text_is_one_of(const char *text, const char *const words[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) return true;
    return false;
}

int text_compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

void texts_free(char **texts, int count) {
    for (int i = 0; texts && i < count; i++) free(texts[i]);
    free(texts);
}

void texts_add(struct texts *texts, char *text) {
    *APPEND(texts->items, texts->count) = text;
}

void texts_clear(struct texts *texts) {
    texts_free(texts->items, texts->count);
    *texts = (struct texts){0};
}
