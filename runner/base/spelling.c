/* spelling.c - finds the nearest name by edit distance. */
#include "spelling.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define MAX_WORD  64 /* longer words have no nearest name */

/* The number of edits (insert, delete, replace, swap neighbours) that turn one word into the other, ignoring case.
 * Neither is longer than MAX_WORD. */
static int edit_distance(const char *a, const char *b) {
    int rows[3][MAX_WORD + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    int length = (int)strlen(b);
    for (int j = 0; j <= length; j++) above[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = min(above[j - 1] + (x != y), min(above[j], row[j - 1]) + 1);
            bool swapped =
                i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]);
            if (swapped) row[j] = min(row[j], before[j - 2] + 1);
        }
        int *oldest = before;
        before = above, above = row, row = oldest;
    }
    return above[length];
}

const char *nearest_name(const char *word, const char *const names[], int count) {
    size_t length = strlen(word);
    if (length == 0 || length > MAX_WORD) return NULL;
    const char *nearest = NULL;
    int limit = length < 4 ? 2 : (int)length / 3 + 2; /* fewer edits are near: in a short word one */
    for (int i = 0; i < count; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > MAX_WORD) continue;
        int distance = edit_distance(word, names[i]);
        bool all_replaced = distance >= (int)(length > name_length ? length : name_length);
        if (distance < limit && !all_replaced) limit = distance, nearest = names[i];
    }
    for (int i = 0; i < count && !nearest && length >= 3; i++)
        if (strncmp(word, names[i], length) == 0) nearest = names[i];
    return nearest;
}

const char *name_hint(const char *word, const char *const names[], int count, const char *otherwise,
                      char text[HINT_TEXT]) {
    const char *nearest = nearest_name(word, names, count);
    if (!nearest) return otherwise;
    snprintf(text, HINT_TEXT, " (did you mean '%s'?)", nearest);
    return text;
}
