/* h5fault.c - finds the fault of a file from HDF5's error text, and that of an object from the links on its path. */
#include "h5fault.h"

#include "../../base/path.h"
#include "../../base/spelling.h"
#include "../../base/text.h"
#include "../../base/texts.h"
#include "h5claims.h"
#include "h5guard.h"
#include "h5visit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAMES_MAX = 1000, /* most data sets that are collected for a hint */
    NAMES_SHOWN = 6
};

/* ---- files ------------------------------------------------------------------------------------------------------- */

#define CANNOT_BE_OPENED "cannot be opened: "

/* Texts in HDF5's reason, and what is reported for each. HDF5's reason is added to a report that ends in ": ". The
 * first text that is found decides. */
static const struct {
    const char *in_reason, *report;
} file_faults[] = {
    {"to lock", "cannot be locked: another program is writing it, or its file system has no locks (then set "
                "HDF5_USE_FILE_LOCKING=FALSE): "},
    {"already open for",
     "another program is writing it, or has ended without closing it. Wait until it is closed; if nothing writes it "
     "any more, `h5clear -s` makes it readable, which on a file that is still being written destroys it"},
    {"truncated", "is a truncated HDF5 file: shorter than it says it is"},
    {"signature", "is not an HDF5 file"},
    {"memory allocation", CANNOT_BE_OPENED},
    {"duplication failed", CANNOT_BE_OPENED},
    {"Too many open files", CANNOT_BE_OPENED},
    {"Cannot allocate memory", CANNOT_BE_OPENED},
    {"bad superblock version", "needs a later HDF5, or is damaged: "},
    {"", "is a damaged HDF5 file: "},
};

enum status h5_fail_file(const char *path, struct error *error) {
    const char *reason = h5_error_text();
    int fault = 0;
    if (access(path, F_OK) != 0) /* removed just now */
        return fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    while (!strstr(reason, file_faults[fault].in_reason)) fault++; /* the last text is "", which every reason has */
    const char *report = file_faults[fault].report;
    const char *foreign = strcmp(report, "is not an HDF5 file") == 0 ? h5_foreign_format(path) : h5_driver_format(path);
    bool adds_reason = !foreign && report[strlen(report) - 1] == ' ';
    return fail(error, STATUS_USAGE, "%s: %s%s", path, foreign ? foreign : report, adds_reason ? reason : "");
}

hid_t h5_open_first(const struct texts *names, int *number, struct error *error) {
    hid_t file = H5I_INVALID_HID;
    for (int i = 0; i < names->count && file < 0; i++) {
        struct stat about;
        if (stat(names->items[i], &about) != 0 || !S_ISREG(about.st_mode)) continue;
        file = h5_open_to_read(names->items[i], H5P_DEFAULT);
        bool first_fault = file < 0 && !error->status; /* only the first file's fault is reported */
        if (file >= 0 || first_fault) *number = i;
        if (first_fault) h5_fail_file(names->items[i], error);
    }
    return file;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* The names of a file's data sets, including links to data sets in other files of its folder. */
struct names {
    hid_t links;
    struct texts paths;
    char *broken; /* the first link that leads nowhere; NULL: none */
};

/* Callback of h5_visit: adds the name of a data set, or the first link that leads nowhere. */
static herr_t collect_name(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct names *names = context;
    H5O_info_t object;
    bool there = H5Oget_info_by_name2(group, name, &object, H5O_INFO_BASIC, names->links) >= 0;
    OWNED char *clean = text_clean(name);
    if (there && object.type == H5O_TYPE_DATASET) texts_add(&names->paths, must_printf("/%s", clean));
    if (!there && link->type != H5L_TYPE_HARD && !names->broken) names->broken = must_printf("/%s", clean);
    return names->paths.count == NAMES_MAX;
}

/* Reports that a data set does not exist, and the nearest name, or the names that exist. */
static enum status fail_missing(hid_t file, const char *path, const char *dataset, struct error *error) {
    H5_GUARD(guard, EXTERNAL_SAME_FOLDER, path, "/");
    struct names names = {.links = guard.links};
    h5_visit(file, H5_ITER_NATIVE, collect_name, NULL, &names);
    FREED_BY(texts_clear) struct texts paths = names.paths;
    OWNED char *broken = names.broken, *rooted = must_printf("%s%s", *dataset == '/' ? "" : "/", dataset);
    const char *nearest = nearest_name(rooted, (const char *const *)paths.items, paths.count);
    OWNED char *hint = nearest ? must_printf(" (did you mean '%s'?)", nearest)
                       : paths.count == 0 && broken
                           ? must_printf(": it holds none, only links that lead nowhere, such as '%s'", broken)
                           : must_strdup(paths.count == 0 ? ": it holds none" : ": it holds ");
    for (int i = 0; !nearest && i < paths.count && i < NAMES_SHOWN; i++)
        must_append(&hint, "%s%s", i ? ", " : "", paths.items[i]);
    if (!nearest && paths.count > NAMES_SHOWN) must_append(&hint, ", ...");
    return fail(error, STATUS_USAGE, "%s: has no data set '%s'%.511s", path, dataset, hint);
}

/* Returns why `object`, the target of an external link, cannot be opened; `file` is open. The caller frees. */
static char *object_fault(hid_t file, const char *path, const char *object) {
    H5_GUARD(guard, EXTERNAL_ALLOW, path, object);
    OWNED_ID hid_t id = H5Oopen(file, object, guard.links);
    OWNED char *reason = must_strdup(h5_error_text()), *newer = id < 0 ? h5_needs_newer(file, object, reason) : NULL;
    return newer ? must_printf("which %s", newer) : must_strdup("which has no such object that can be opened");
}

/* Returns the fault of the target of an external link: of its file, or of the object in it. The caller frees. */
static char *external_fault(const char *path, const char *file, const char *object) {
    FREED_BY(texts_clear) struct texts names = h5_names_of(path, file, "HDF5_EXT_PREFIX");
    struct error why = {0};
    int number;
    OWNED_ID hid_t opened = h5_open_first(&names, &number, &why);
    OWNED char *fault = opened >= 0  ? object_fault(opened, names.items[number], object)
                        : why.status ? must_printf("which cannot be opened: %s", why.text)
                                     : must_strdup("which is not there");
    return must_printf("an external link to '%s' in %s, %s", object, file, fault);
}

static char *find_fault(hid_t file, const char *path, const char *name, hid_t links, int depth, bool *missing);

/* Returns the fault of a soft link: its target is not there, or is a link that leads nowhere. `depth`: how many soft
 * links led to this one. The caller frees. */
static char *soft_fault(hid_t file, const char *path, const char *name, const char *target, int depth) {
    if (depth > 1) return must_printf("a soft link to '%s', which leads on to other links", target);
    H5_GUARD(guard, EXTERNAL_ALLOW, path, name);
    bool missing;
    int group = *target == '/' ? 0 : (int)(path_name(name) - name); /* length of the name of the link's group */
    OWNED char *rooted = must_printf("%.*s%s", group, name, target);
    OWNED char *fault = find_fault(file, path, rooted, guard.links, depth + 1, &missing);
    return must_printf("a soft link to '%s', which is %s", target, fault ? fault : "not there");
}

/* h5_link_fault. `depth`: how many soft links led to this link. */
static char *link_fault(hid_t file, const char *path, const char *name, int depth) {
    H5L_info_t link;
    char *text = NULL;
    const char *to, *object;
    if (H5Lget_info(file, name, &link, H5P_DEFAULT) < 0 || link.type == H5L_TYPE_HARD) return NULL;
    OWNED char *value = must_malloc(link.u.val_size + 1);
    value[link.u.val_size] = '\0';
    if (H5Lget_val(file, name, value, link.u.val_size, H5P_DEFAULT) < 0)
        text = must_strdup("a link that cannot be read");
    else if (link.type == H5L_TYPE_SOFT)
        text = soft_fault(file, path, name, value, depth);
    else if (H5Lunpack_elink_val(value, link.u.val_size, NULL, &to, &object) >= 0)
        text = external_fault(path, to, object);
    return text;
}

char *h5_link_fault(hid_t file, const char *path, const char *name) {
    return link_fault(file, path, name, 0);
}

/* Follows a path. Sets *missing and returns NULL at the first name that does not exist; returns the fault of the first
 * link that leads nowhere, which the caller frees. NULL also if all names exist. */
static char *find_fault(hid_t file, const char *path, const char *name, hid_t links, int depth, bool *missing) {
    OWNED char *copy = must_strdup(name);
    char *fault = NULL;
    *missing = *name == '\0';
    for (char *end = copy; !*missing && !fault && *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = '\0';
        if (strspn(copy, "/") < strlen(copy)) {
            *missing = H5Lexists(file, copy, H5P_DEFAULT) <= 0;
            if (!*missing && H5Oexists_by_name(file, copy, links) <= 0) fault = link_fault(file, path, copy, depth);
        }
        *end = kept;
    }
    return fault;
}

enum status h5_fail_object(hid_t file, const char *path, const char *name, struct error *error) {
    OWNED char *reason = must_strdup(h5_error_text()); /* later failures replace the text */
    bool missing;
    H5_GUARD(guard, EXTERNAL_ALLOW, path, name);
    OWNED char *fault = find_fault(file, path, name, guard.links, 0, &missing);
    OWNED char *newer = h5_needs_newer(file, name, reason);
    if (missing) return fail_missing(file, path, name, error);
    if (fault) return fail(error, STATUS_USAGE, "%s: '%s' is %s", path, name, fault);
    return fail(error, STATUS_USAGE, "%s: '%s' %s%s", path, name,
                newer ? newer : "cannot be opened: ", newer ? "" : reason);
}
