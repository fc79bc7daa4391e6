/* text.c - the nearest of some names by edit distance, sizes in their units, the length of a UTF-8 character. */
#include "text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define MAX_WORD  64 /* longer words have no nearest name */

/* Edits (insert, delete, replace, swap of neighbours) that turn one word into the other, upper and lower case alike. */
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
    int least = length < 4 ? 2 : (int)length / 3 + 2; /* of a short word two edits leave little */
    for (int i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > MAX_WORD) continue;
        int distance = edit_distance(word, names[i]);
        bool all_replaced = distance >= (int)(length > other ? length : other);
        if (distance < least && !all_replaced) least = distance, nearest = names[i];
    }
    return nearest;
}

const char *size_text(double bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) bytes /= 1024, unit++;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

int utf8_length(const char *text, size_t length) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80) return 1;
    int size = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || (size_t)size > length) return 0;
    for (int i = 1; i < size; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool surrogate = c[0] == 0xed && c[1] > 0x9f;
    bool beyond = c[0] == 0xf4 && c[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : size;
}
