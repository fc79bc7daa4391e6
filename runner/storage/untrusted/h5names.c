/* h5names.c - builds paths as HDF5 does. */
#include "h5names.h"

#include "../../base/destination.h"
#include "../../base/fail.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PATHS = sizeof((struct h5_names *)0)->path / sizeof(char *) };

/* `folder` NULL: the current folder. */
static void add_path(struct h5_names *names, const char *folder, const char *name) {
    if (names->count == MOST_PATHS) return;
    names->path[names->count++] = folder ? must_printf("%s/%s", folder, name) : must_strdup(name);
}

static void add_prefix_folders(struct h5_names *names, const char *variable, const char *origin, const char *name) {
    static const char mark[] = "${ORIGIN}";
    const char *folders = getenv(variable);
    char *list = must_strdup(folders ? folders : ""), *rest = list;
    for (char *folder; (folder = strsep(&rest, ":"));) {
        bool at_origin = strncmp(folder, mark, strlen(mark)) == 0;
        char *whole = must_printf("%s%s", at_origin ? origin : "", folder + (at_origin ? strlen(mark) : 0));
        if (*whole && names->count < MOST_PATHS - 3)
            add_path(names, whole, name); /* leaves space for the three paths that are always added */
        free(whole);
    }
    free(list);
}

static char *real_folder(const char *from) {
    char *real = must_realpath(from), *folder = path_folder(real ? real : from);
    free(real);
    return folder;
}

struct h5_names h5_names_of(const char *from, const char *name, const char *variable) {
    const char *slash = strrchr(name, '/'), *relative = *name == '/' ? slash + 1 : name;
    struct h5_names names = {0};
    char *beside = path_folder(from), *origin_folder = real_folder(from);
    if (relative != name) add_path(&names, NULL, name);
    add_prefix_folders(&names, variable, origin_folder, relative);
    add_path(&names, beside, relative);
    add_path(&names, NULL, relative);
    add_path(&names, origin_folder, relative);
    free(beside);
    free(origin_folder);
    return names;
}

struct h5_names h5_names_external(const char *from, const char *name) {
    static const char mark[] = "${ORIGIN}";
    struct h5_names names = {0};
    const char *prefix = getenv("HDF5_EXTFILE_PREFIX"); /* h5_prepare sets it */
    if (*name == '/' || !prefix || !*prefix || strcmp(prefix, ".") == 0) {
        add_path(&names, NULL, name);
        return names;
    }
    bool at_origin = strncmp(prefix, mark, strlen(mark)) == 0;
    char *origin_folder = real_folder(from);
    char *folder = must_printf("%s%s", at_origin ? origin_folder : "", prefix + (at_origin ? strlen(mark) : 0));
    add_path(&names, folder, name);
    free(folder);
    free(origin_folder);
    return names;
}

void h5_names_free(struct h5_names *names) {
    for (int i = 0; i < names->count; i++) free(names->path[i]);
}

char *h5_block_name(const char *stored, int block, bool *numbered) {
    char *name = must_strdup("");
    *numbered = false;
    for (const char *at = stored; *at; at += *at == '%' && at[1] ? 2 : 1) {
        bool number = at[0] == '%' && at[1] == 'b';
        char *longer = number ? must_printf("%s%d", name, block) : must_printf("%s%c", name, *at);
        *numbered |= number;
        free(name);
        name = longer;
    }
    return name;
}
