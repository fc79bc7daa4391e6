/* h5refused.c - examines an object that could not be opened, to report why. */
#define H5_USE_110_API
#include "h5refused.h"

#include "../../base/text.h"
#include "h5claims.h"
#include "h5foreign.h"
#include "h5guard.h"
#include "h5names.h"
#include "h5newer.h"
#include "h5visit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAMES_MAX = 1000, /* most data sets that are collected for a hint */
    NAMES_SHOWN = 6
};

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum status h5_fail_file(const char *path, struct error *error) {
    const char *reason = h5_error_text(), *foreign;
    if (access(path, F_OK) != 0) /* removed just now */
        return fail(error, STATUS_USAGE, "%s: %s", path, strerror(errno));
    if (strstr(reason, "to lock"))
        return fail(error, STATUS_USAGE,
                    "%s: cannot be locked: another program is writing it, or its file system has no locks (then set "
                    "HDF5_USE_FILE_LOCKING=FALSE): %s",
                    path, reason);
    if (strstr(reason, "already open for"))
        return fail(error, STATUS_USAGE,
                    "%s: another program is writing it, or has ended without closing it. Wait until it is closed; if "
                    "nothing writes it any more, `h5clear -s` makes it readable, which on a file that is still being "
                    "written destroys it",
                    path);
    if (strstr(reason, "truncated"))
        return fail(error, STATUS_USAGE, "%s: is a truncated HDF5 file: shorter than it says it is", path);
    if (strstr(reason, "signature")) {
        foreign = h5_foreign_format(path);
        return fail(error, STATUS_USAGE, "%s: %s", path, foreign ? foreign : "is not an HDF5 file");
    }
    bool lacks = strstr(reason, "memory allocation") || strstr(reason, "duplication failed") ||
                 strstr(reason, strerror(EMFILE)) || strstr(reason, strerror(ENFILE)) ||
                 strstr(reason, strerror(ENOMEM));
    if (lacks) return fail(error, STATUS_USAGE, "%s: cannot be opened: %s", path, reason);
    if (strstr(reason, "bad superblock version"))
        return fail(error, STATUS_USAGE, "%s: needs a later HDF5, or is damaged: %s", path, reason);
    return fail(error, STATUS_USAGE, "%s: is a damaged HDF5 file: %s", path, reason);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* Names of data sets, including links to data sets in other files of the folder, and the first dangling link. */
struct names {
    hid_t links;
    int count;
    char *name[NAMES_MAX], *broken;
};

static herr_t collect_name(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    struct names *names = context;
    H5O_info_t object;
    bool there = H5Oget_info_by_name2(group, name, &object, H5O_INFO_BASIC, names->links) >= 0;
    char *clean = text_clean(name);
    if (there && object.type == H5O_TYPE_DATASET) names->name[names->count++] = must_printf("/%s", clean);
    if (!there && link->type != H5L_TYPE_HARD && !names->broken) names->broken = must_printf("/%s", clean);
    free(clean);
    return names->count == NAMES_MAX;
}

/* Fails for a data set that does not exist, with the nearest name, or with the names that exist. */
static enum status fail_missing(hid_t file, const char *path, const char *dataset, struct error *error) {
    struct names *names = must_malloc(sizeof *names);
    struct h5_guard guard;
    h5_guard_begin(&guard, EXTERNAL_SAME_FOLDER, path);
    *names = (struct names){.links = h5_guard_links(&guard)};
    h5_visit(file, H5_ITER_NATIVE, collect_name, names);
    char *rooted = must_printf("%s%s", *dataset == '/' ? "" : "/", dataset);
    const char *nearest = nearest_name(rooted, (const char *const *)names->name, names->count);
    char hint[512] = "";
    if (nearest) {
        snprintf(hint, sizeof hint, " (did you mean '%s'?)", nearest);
    } else if (names->count == 0 && names->broken) {
        snprintf(hint, sizeof hint, ": it holds none, only links that lead nowhere, such as '%s'", names->broken);
    } else if (names->count == 0) {
        snprintf(hint, sizeof hint, ": it holds none");
    } else {
        for (int i = 0; i < names->count && i < NAMES_SHOWN; i++) {
            size_t used = strlen(hint);
            snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : ": it holds ", names->name[i]);
        }
        if (names->count > NAMES_SHOWN) strncat(hint, ", ...", sizeof hint - strlen(hint) - 1);
    }
    enum status status = fail(error, STATUS_USAGE, "%s: has no data set '%s'%s", path, dataset, hint);
    for (int i = 0; i < names->count; i++) free(names->name[i]);
    free(names->broken);
    H5Pclose(names->links);
    h5_guard_end(&guard);
    free(names);
    free(rooted);
    return status;
}

/* Why the target object of an external link, in an open file, cannot be opened. The caller frees. */
static char *object_fault(hid_t file, const char *path, const char *object) {
    struct h5_guard guard;
    h5_guard_begin(&guard, EXTERNAL_ALLOW, path);
    hid_t links = h5_guard_links(&guard), id = H5Oopen(file, object, links);
    char *reason = must_strdup(h5_error_text()), *newer = id < 0 ? h5_needs_newer(file, object, reason) : NULL;
    char *text = newer ? must_printf("which %s", newer) : must_strdup("which has no such object that can be opened");
    if (id >= 0) H5Oclose(id);
    H5Pclose(links);
    h5_guard_end(&guard);
    free(newer);
    free(reason);
    return text;
}

/* What is wrong with the target of an external link: its file, or the object in it. The caller frees. */
static char *external_fault(const char *path, const char *file, const char *object) {
    struct h5_names names = h5_names_of(path, file, "HDF5_EXT_PREFIX");
    hid_t opened = H5I_INVALID_HID;
    const char *there = NULL;
    for (int i = 0; i < names.count && opened < 0; i++) {
        if (access(names.path[i], F_OK) != 0) continue;
        there = names.path[i];
        opened = h5_open_to_read(there, H5P_DEFAULT);
    }
    struct error why = {0};
    if (there && opened < 0) h5_fail_file(there, &why);
    char *fault = opened >= 0 ? object_fault(opened, there, object)
                  : there     ? must_printf("which cannot be opened: %s", why.text)
                              : must_strdup("which is not there");
    char *text = must_printf("an external link to '%s' in %s, %s", object, file, fault);
    free(fault);
    if (opened >= 0) H5Fclose(opened);
    h5_names_free(&names);
    return text;
}

char *h5_link_fault(hid_t file, const char *path, const char *name) {
    H5L_info_t link;
    char *text = NULL;
    const char *to, *object;
    if (H5Lget_info(file, name, &link, H5P_DEFAULT) < 0 || link.type == H5L_TYPE_HARD) return NULL;
    char *value = must_malloc(link.u.val_size + 1);
    value[link.u.val_size] = '\0';
    if (H5Lget_val(file, name, value, link.u.val_size, H5P_DEFAULT) < 0)
        text = must_strdup("a link that cannot be read");
    else if (link.type == H5L_TYPE_SOFT)
        text = must_printf("a soft link to '%s', which is not there", value);
    else if (H5Lunpack_elink_val(value, link.u.val_size, NULL, &to, &object) >= 0)
        text = external_fault(path, to, object);
    free(value);
    return text;
}

/* Follows the path to the first name that does not exist (*missing), or to the first dangling link. */
static char *find_fault(hid_t file, const char *path, const char *name, hid_t links, bool *missing) {
    char *copy = must_strdup(name), *fault = NULL;
    *missing = *name == '\0';
    for (char *end = copy; !*missing && !fault && *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = '\0';
        if (strspn(copy, "/") < strlen(copy)) {
            *missing = H5Lexists(file, copy, H5P_DEFAULT) <= 0;
            if (!*missing && H5Oexists_by_name(file, copy, links) <= 0) fault = h5_link_fault(file, path, copy);
        }
        *end = kept;
    }
    free(copy);
    return fault;
}

enum status h5_fail_object(hid_t file, const char *path, const char *name, struct error *error) {
    char *reason = must_strdup(h5_error_text()); /* before others fail */
    struct h5_guard guard;
    bool missing;
    h5_guard_begin(&guard, EXTERNAL_ALLOW, path);
    hid_t links = h5_guard_links(&guard);
    char *fault = find_fault(file, path, name, links, &missing), *newer = h5_needs_newer(file, name, reason);
    H5Pclose(links);
    h5_guard_end(&guard);
    enum status status;
    if (missing)
        status = fail_missing(file, path, name, error);
    else if (fault)
        status = fail(error, STATUS_USAGE, "%s: '%s' is %s", path, name, fault);
    else
        status = fail(error, STATUS_USAGE, "%s: '%s' %s%s", path, name,
                      newer ? newer : "cannot be opened: ", newer ? "" : reason);
    free(newer);
    free(fault);
    free(reason);
    return status;
}
