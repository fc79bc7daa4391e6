/* embedded.c - finds an embedded text. embed.awk makes the array during the build. */
#include "embedded.h"

#include <stddef.h>
#include <string.h>

const char *embedded_text(const char *name) {
    for (const struct embedded *it = embedded; it->name; it++)
        if (strcmp(it->name, name) == 0) return it->text;
    return NULL;
}
