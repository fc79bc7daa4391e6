/* embedded.c - finds an embedded text. embed.awk makes the array during the build. */
#include "embedded.h"

#include <stddef.h>
#include <string.h>

const char *embedded_text(const char *name) {
    for (const struct embedded *entry = embedded; entry->name; entry++)
        if (strcmp(entry->name, name) == 0) return entry->text;
    return NULL;
}
