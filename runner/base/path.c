/* path.c - cuts and joins paths. */
#include "path.h"

#include "fail.h"
#include <stdlib.h>
#include <string.h>

char *path_absolute(const char *path) {
    char *resolved = must_realpath(path);
    return resolved ? resolved : must_strdup(path);
}

const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *path_suffix(const char *path) {
    const char *name = path_name(path), *dot = strrchr(name, '.');
    return dot && dot != name ? dot : name + strlen(name);
}

char *path_stem(const char *path) {
    const char *name = path_name(path);
    return must_printf("%.*s", (int)(path_suffix(name) - name), name);
}

char *path_folder(const char *path) {
    int length = (int)(path_name(path) - path); /* with the slash */
    return length ? must_printf("%.*s", length > 1 ? length - 1 : 1, path) : must_strdup(".");
}

char *path_cache(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') return must_printf("%s/tilerun", cache);
    return home && home[0] == '/' ? must_printf("%s/.cache/tilerun", home) : NULL;
}

char *path_beside(const char *file, const char *path) {
    return must_printf("%.*s%s", *path == '/' ? 0 : (int)(path_name(file) - file), file, path);
}
