/* h5mapped.c - walks the mappings of a virtual data set, and those of its sources.
 *
 * H5Sselect_project_intersection projects the selected elements of the place of a mapping into its source and into
 * memory. HDF5 1.10 reads a source that is missing, or cannot be opened, as fill values; later versions fail. Both fail
 * if a source does not have the shape that was mapped. */
#define H5_USE_110_API
#include "h5mapped.h"

#include "../../base/fail.h"
#include "../../base/text.h"
#include "../h5/filters.h"
#include "../h5/h5slab.h"
#include "../h5/h5type.h"
#include "../h5/h5virtual.h"
#include "h5blocks.h"
#include "h5claims.h"
#include "h5external.h"
#include "h5guard.h"
#include "h5names.h"
#include "h5refused.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { DEEPEST = 16, SPARE_FILES = 64 };

struct walk {
    const char *path, *name;  /* of the outermost data set, for messages */
    struct h5_absent *absent; /* not NULL: look for absent elements; NULL: read... */
    void *data;               /* ...into this memory... */
    hid_t type;               /* ...as this type */
    struct h5_guard guard;    /* refuses links to pipes */
    hid_t links;
    struct error error;
    int depth;
};

/* An open source. */
struct source {
    hid_t file, dataset; /* negative: the source cannot be opened... */
    char *why;           /* ...for this reason */
};

static void visit(struct walk *walk, hid_t dataset, hid_t seen, hid_t memory);

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* The text of an error without the file name at its beginning. */
static const char *without_path(const struct error *error, const char *path) {
    size_t length = strlen(path);
    return strncmp(error->text, path, length) == 0 && error->text[length] == ':' ? error->text + length + 2
                                                                                 : error->text;
}

static hid_t open_file(const char *from, const char *name, char **why) {
    struct h5_names names = h5_names_of(from, name, "HDF5_VDS_PREFIX");
    hid_t file = H5I_INVALID_HID;
    for (int i = 0; i < names.count && file < 0; i++) {
        struct stat about;
        struct error error = {0};
        if (stat(names.path[i], &about) != 0 || !S_ISREG(about.st_mode)) continue;
        file = h5_open_to_read(names.path[i], H5P_DEFAULT);
        if (file >= 0 || *why) continue;
        h5_fail_file(names.path[i], &error);
        *why = must_strdup(without_path(&error, names.path[i]));
    }
    if (file < 0 && !*why) *why = must_strdup("is not there");
    h5_names_free(&names);
    return file;
}

static struct source open_source(struct walk *walk, hid_t whole, const char *path, const char *file, const char *name) {
    struct source source = {H5I_INVALID_HID, H5I_INVALID_HID, NULL};
    source.file = strcmp(file, ".") == 0 ? H5Iget_file_id(whole) : open_file(path, file, &source.why);
    if (source.file < 0) return source;
    struct error error = {0};
    source.dataset = H5Oopen(source.file, name, walk->links);
    if (source.dataset < 0 && h5_fail_object(source.file, file, name, &error)) {
        const char *text = without_path(&error, file);
        source.why =
            strncmp(text, "has no data set", 15) == 0 ? must_strdup("has no such data set") : must_strdup(text);
    } else if (H5Iget_type(source.dataset) != H5I_DATASET) {
        H5Oclose(source.dataset);
        source.dataset = H5I_INVALID_HID;
        source.why = must_strdup("has an object of that name that is not a data set");
    } else {
        source.dataset = h5_reopen_past_gaps(source.dataset);
        if (source.dataset < 0) source.why = must_printf("cannot be opened: %s", h5_error_text());
    }
    return source;
}

static void close_source(const struct source *source) {
    if (source->dataset >= 0) H5Dclose(source->dataset);
    if (source->file >= 0) H5Fclose(source->file);
    free(source->why);
}

static void note_absent(struct walk *walk, hssize_t elements, const char *file, const char *name, const char *why) {
    if (!walk->absent) return;
    walk->absent->elements += elements;
    walk->absent->read_by_source = true;
    if (walk->absent->sources++ == 0)
        walk->absent->first = strcmp(file, ".") == 0 ? must_printf("'%s', which %s", name, why)
                                                     : must_printf("'%s' in %s, which %s", name, file, why);
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* One mapping: `place`, a selection of the virtual data set, shows `part` of a source. */
struct mapping {
    hid_t whole; /* the virtual data set */
    const char *path, *file, *name;
    hid_t place, part;
};

/* Creates a box of rank `rank` with the elements of `place`, a regular hyperslab, by leaving out axes of one element.
 * Negative: there is none. */
static hid_t box_of_place(hid_t place, int rank) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int axes = H5Sget_simple_extent_ndims(place), kept = 0, drop = axes - rank;
    if (H5Sis_regular_hyperslab(place) <= 0 || H5Sget_regular_hyperslab(place, start, stride, count, block) < 0)
        return H5I_INVALID_HID;
    for (int i = 0; i < axes; i++)
        if (drop > 0 && count[i] * block[i] == 1)
            drop--;
        else
            size[kept++] = count[i] * block[i];
    return kept == rank && rank > 0 ? h5_slab_box(rank, size) : H5I_INVALID_HID;
}

/* Fits a mapping of H5S_ALL, which does not state the shape of the source. HDF5 maps the same number of elements of any
 * shape, and fails if their number has changed. false: the shape is not known. */
static bool fit_whole_source(struct walk *walk, struct mapping *mapping, hid_t space) {
    bool same = H5Sget_simple_extent_npoints(space) == h5_slab_points(mapping->place);
    hid_t part = same ? H5Scopy(space) : box_of_place(mapping->place, H5Sget_simple_extent_ndims(space));
    if (!same && walk->absent) walk->absent->read_by_source = true;
    if (part < 0) return false;
    h5_as_slab(part);
    H5Sclose(mapping->part);
    mapping->part = part;
    return true;
}

/* Removes the part of a mapping that lies outside a shape. */
static void remove_outside(struct mapping *mapping, int rank, const hsize_t size[]) {
    hid_t there = h5_slab_box(rank, size);
    hid_t place = H5Sselect_project_intersection(mapping->part, mapping->place, there);
    hid_t part = H5Sselect_project_intersection(mapping->part, mapping->part, there);
    H5Sclose(mapping->place);
    H5Sclose(mapping->part);
    H5Sclose(there);
    mapping->place = place;
    mapping->part = part;
}

/* Fits a mapping to the shape of its source. Returns why a part of it is absent; NULL: nothing is. */
static char *fit_to_source(struct walk *walk, struct mapping *mapping, hid_t source) {
    hsize_t size[H5S_MAX_RANK], last[H5S_MAX_RANK], first[H5S_MAX_RANK];
    hid_t space = H5Dget_space(source);
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    bool known = H5Sget_select_type(mapping->part) != H5S_SEL_ALL || fit_whole_source(walk, mapping, space),
         fits = true;
    char text[SHAPE_TEXT];
    struct shape shape = {.rank = rank < MAX_RANK ? rank : MAX_RANK};
    for (int i = 0; i < shape.rank; i++) shape.size[i] = (int64_t)size[i];
    shape_format(&shape, text);
    H5Sclose(space);
    if (!known || rank != H5Sget_simple_extent_ndims(mapping->part)) {
        H5Sselect_none(mapping->place);
        H5Sselect_none(mapping->part);
        return must_printf("is %s, not what is mapped", text);
    }
    if (h5_slab_points(mapping->part) == 0 || H5Sget_select_bounds(mapping->part, first, last) < 0) return NULL;
    for (int i = 0; i < rank; i++) fits = fits && last[i] < size[i];
    if (fits) return NULL;
    remove_outside(mapping, rank, size);
    return must_printf("is only %s", text);
}

/* Visits the seen part of the source. */
static void visit_part(struct walk *walk, const struct mapping *mapping, hid_t source, hid_t seen, hid_t memory) {
    hid_t shown = H5Sselect_project_intersection(mapping->place, mapping->part, seen), space = H5Dget_space(source);
    hid_t target = walk->absent ? H5S_ALL : H5Sselect_project_intersection(seen, memory, mapping->place);
    if (h5_slab_points(shown) > 0) {
        H5Sselect_copy(space, shown); /* with the extent of the source */
        visit(walk, source, space, target);
    }
    if (target != H5S_ALL) H5Sclose(target);
    H5Sclose(space);
    H5Sclose(shown);
}

/* Visits the source of a mapping, and closes both selections of the mapping. */
static void visit_mapping(struct walk *walk, struct mapping mapping, hid_t seen, hid_t memory) {
    h5_as_slab(mapping.place);
    hid_t shown = H5Sselect_project_intersection(mapping.place, mapping.place, seen);
    hssize_t wanted = h5_slab_points(shown), there = 0;
    H5Sclose(shown);
    if (wanted > 0) {
        struct source source = open_source(walk, mapping.whole, mapping.path, mapping.file, mapping.name);
        unsigned intent = 0;
        if (source.file >= 0) H5Fget_intent(source.file, &intent);
        if (walk->absent) {
            walk->absent->files += strcmp(mapping.file, ".") != 0;
            walk->absent->read_by_source |= (intent & H5F_ACC_SWMR_READ) != 0; /* HDF5 does not open sources for SWMR */
        }
        if (source.dataset >= 0) {
            char *why = fit_to_source(walk, &mapping, source.dataset);
            shown = H5Sselect_project_intersection(mapping.place, mapping.part, seen);
            there = h5_slab_points(shown);
            H5Sclose(shown);
            if (there < wanted)
                note_absent(walk, wanted - there, mapping.file, mapping.name, why ? why : "is too small");
            if (there > 0) visit_part(walk, &mapping, source.dataset, seen, memory);
            free(why);
        } else {
            note_absent(walk, wanted, mapping.file, mapping.name, source.why);
        }
        close_source(&source);
    }
    H5Sclose(mapping.place);
    H5Sclose(mapping.part);
}

/* Checks that a source exists that only determines the length of the virtual data set: none of its elements are seen.
 */
static void check_exists(struct walk *walk, const struct mapping *mapping) {
    if (!walk->absent) return;
    struct source source = open_source(walk, mapping->whole, mapping->path, mapping->file, mapping->name);
    if (source.dataset < 0) note_absent(walk, 0, mapping->file, mapping->name, source.why);
    close_source(&source);
}

/* Visits a mapping with numbered sources: block number `block` of it shows all of one source, at `place` moved along
 * the unlimited axis. */
static void visit_blocks(struct walk *walk, const struct mapping *pattern, hid_t seen, hid_t memory) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int axis = h5_slab_unlimited_axis(pattern->place, start, stride, count, block), found;
    int last = h5_last_block(pattern->path, pattern->file, pattern->name, walk->links, &found);
    hid_t space = H5Dget_space(pattern->whole);
    H5Sget_simple_extent_dims(space, size, NULL);
    if (last < 0) note_absent(walk, 0, pattern->file, pattern->name, "is not there under any number");
    count[axis] = 1;
    for (int i = 0; i <= last && !walk->error.status; i++, start[axis] += stride[axis]) {
        bool within = start[axis] < size[axis]; /* HDF5 counts blocks up to the last that it can open */
        if (!within && !h5_slab_reaches(seen, axis, size[axis])) break;
        bool numbered;
        char *file = h5_block_name(pattern->file, i, &numbered), *name = h5_block_name(pattern->name, i, &numbered);
        hid_t place = H5Scopy(within ? space : pattern->place);
        if (within) H5Sselect_hyperslab(place, H5S_SELECT_SET, start, stride, count, block);
        const struct mapping mapping = {pattern->whole, pattern->path, file, name, place, H5Scopy(pattern->part)};
        if (within)
            visit_mapping(walk, mapping, seen, memory);
        else
            check_exists(walk, &mapping), H5Sclose(mapping.place), H5Sclose(mapping.part);
        free(file);
        free(name);
    }
    H5Sclose(space);
}

/* Visits a mapping whose two selections are unlimited, as far as the virtual data set extends. */
static void visit_unlimited(struct walk *walk, const struct mapping *pattern, hid_t seen, hid_t memory) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int axis = h5_slab_unlimited_axis(pattern->place, start, stride, count, block);
    hid_t space = H5Dget_space(pattern->whole);
    H5Sget_simple_extent_dims(space, size, NULL);
    H5Sclose(space);
    struct mapping mapping = *pattern;
    hsize_t slices = h5_slab_slices(pattern->place, size[axis]);
    mapping.place = h5_slab_limited(pattern->place, slices);
    mapping.part = h5_slab_limited(pattern->part, slices);
    if (size[axis] == 0) check_exists(walk, &mapping); /* no source determines its length */
    visit_mapping(walk, mapping, seen, memory);
}

static void fill_target(struct walk *walk, hid_t creation, hid_t memory) {
    size_t bytes = H5Tget_size(walk->type);
    char *value = memset(must_malloc(bytes), 0, bytes);
    if (H5Pget_fill_value(creation, walk->type, value) < 0) memset(value, 0, bytes);
    H5Dfill(value, walk->type, walk->data, walk->type, memory);
    free(value);
}

static void visit_virtual(struct walk *walk, hid_t dataset, hid_t creation, hid_t seen, hid_t memory) {
    size_t count = 0;
    char path[PATH_MAX] = "", file[PATH_MAX] = "", name[PATH_MAX] = "";
    H5Fget_name(dataset, path, sizeof path);
    H5Pget_virtual_count(creation, &count);
    if (!walk->absent) fill_target(walk, creation, memory);
    for (size_t i = 0; i < count && !walk->error.status; i++) {
        hsize_t ignored[4][H5S_MAX_RANK];
        H5Pget_virtual_filename(creation, i, file, sizeof file);
        H5Pget_virtual_dsetname(creation, i, name, sizeof name);
        struct mapping mapping = {
            dataset, path, file, name, H5Pget_virtual_vspace(creation, i), H5Pget_virtual_srcspace(creation, i)};
        bool endless = h5_slab_unlimited_axis(mapping.place, ignored[0], ignored[1], ignored[2], ignored[3]) >= 0;
        bool both =
                 endless && h5_slab_unlimited_axis(mapping.part, ignored[0], ignored[1], ignored[2], ignored[3]) >= 0,
             numbered;
        if (endless) {
            (both ? visit_unlimited : visit_blocks)(walk, &mapping, seen, memory);
            H5Sclose(mapping.place);
            H5Sclose(mapping.part);
            continue;
        }
        char *plain_file = h5_block_name(file, 0, &numbered), *plain_name = h5_block_name(name, 0, &numbered);
        mapping.file = plain_file; /* with each "%%" replaced by "%" */
        mapping.name = plain_name;
        visit_mapping(walk, mapping, seen, memory);
        free(plain_file);
        free(plain_name);
    }
}

/* ---- data sets --------------------------------------------------------------------------------------------------- */

/* Checks that a source can be read, and converted to the type of the virtual data set. */
static void check_readable(struct walk *walk, hid_t dataset, hid_t creation, hid_t seen) {
    char path[PATH_MAX] = "", name[512] = "";
    char *missing = NULL;
    H5Fget_name(dataset, path, sizeof path);
    H5Iget_name(dataset, name, sizeof name);
    if (H5Pget_external_count(creation) > 0) h5_check_external(dataset, creation, path, name, seen, &walk->error);
    for (int i = 0; i < H5Pget_nfilters(creation) && !missing; i++) missing = filters_missing(creation, (unsigned)i);
    if (missing && walk->depth == 1)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' is compressed by HDF5 %s", path, name, missing);
    if (missing)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' shows '%s' in %s, which is compressed by HDF5 %s", walk->path,
             walk->name, name, path, missing);
    free(missing);
    hid_t type = H5Dget_type(dataset);
    H5T_cdata_t *conversion;
    if (walk->depth > 1 && !H5Tfind(type, walk->type, &conversion))
        fail(&walk->error, STATUS_USAGE, "%s: '%s' shows '%s' in %s, whose elements are not numbers", walk->path,
             walk->name, name, path);
    H5Tclose(type);
}

static void visit(struct walk *walk, hid_t dataset, hid_t seen, hid_t memory) {
    hid_t creation = H5Dget_create_plist(dataset);
    walk->depth++;
    if (walk->depth > DEEPEST + 1)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' is made of too many virtual data sets of virtual data sets",
             walk->path, walk->name);
    else if (H5Pget_layout(creation) == H5D_VIRTUAL)
        visit_virtual(walk, dataset, creation, seen, memory);
    else if (walk->absent)
        check_readable(walk, dataset, creation, seen);
    else if (H5Dread(dataset, walk->type, memory, seen, H5P_DEFAULT, walk->data) < 0)
        walk->error.status = STATUS_IO; /* h5_error_text has the reason */
    walk->depth--;
    H5Pclose(creation);
}

static void begin_walk(struct walk *walk) {
    h5_guard_begin(&walk->guard, EXTERNAL_ALLOW, walk->path);
    walk->links = h5_guard_links(&walk->guard);
}

static void end_walk(struct walk *walk) {
    H5Pclose(walk->links);
    h5_guard_end(&walk->guard);
}

enum status h5_find_absent(hid_t dataset, const char *path, const char *name, const struct selection *seen,
                           struct h5_absent *absent, struct error *error) {
    *absent = (struct h5_absent){0};
    struct walk walk = {.path = path, .name = name, .absent = absent, .type = H5Dget_type(dataset)};
    hsize_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
    bool empty = false;
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_ndims(space); /* `seen` may have more axes: array dimensions of the element type */
    for (int i = 0; i < rank; i++) {
        start[i] = (hsize_t)seen->start[i];
        count[i] = (hsize_t)seen->count[i];
        step[i] = (hsize_t)seen->step[i];
        empty = empty || count[i] == 0;
    }
    if (empty)
        H5Sselect_none(space);
    else if (rank > 0)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, step, count, NULL);
    begin_walk(&walk);
    visit(&walk, dataset, space, H5S_ALL);
    end_walk(&walk);
    H5Sclose(space);
    H5Tclose(walk.type);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && (rlim_t)absent->files + SPARE_FILES > files.rlim_cur)
        absent->read_by_source = true;
    return walk.error.status ? fail(error, walk.error.status, "%s", walk.error.text) : STATUS_OK;
}

char *h5_absent_source(hid_t dataset, const char *path) {
    if (H5Iget_type(dataset) != H5I_DATASET || !h5_is_virtual(dataset)) return NULL;
    struct h5_absent absent = {0};
    struct walk walk = {.path = path, .name = "it", .absent = &absent, .type = H5Dget_type(dataset)};
    hid_t space = H5Dget_space(dataset);
    h5_as_slab(space);
    begin_walk(&walk);
    visit(&walk, dataset, space, H5S_ALL);
    end_walk(&walk);
    H5Sclose(space);
    H5Tclose(walk.type);
    return !absent.first && walk.error.status ? must_strdup(walk.error.text) : absent.first;
}

herr_t h5_read_by_source(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data) {
    struct walk walk = {.path = "", .name = "", .data = data, .type = type};
    hid_t memory = H5Scopy(memory_space), seen = H5Scopy(file_space);
    h5_as_slab(memory);
    h5_as_slab(seen);
    begin_walk(&walk);
    visit(&walk, dataset, seen, memory);
    end_walk(&walk);
    H5Sclose(seen);
    H5Sclose(memory);
    return walk.error.status ? -1 : 0;
}

hid_t h5_reopen_past_gaps(hid_t dataset) {
    size_t count = 0;
    char path[PATH_MAX] = "", file[PATH_MAX] = "", name[PATH_MAX] = "";
    int gap = 0, found;
    hid_t creation = H5Dget_create_plist(dataset);
    if (H5Pget_layout(creation) == H5D_VIRTUAL) H5Pget_virtual_count(creation, &count);
    if (count == 0) {
        H5Pclose(creation);
        return dataset;
    }
    struct h5_guard guard;
    h5_guard_begin(&guard, EXTERNAL_ALLOW, path);
    hid_t links = h5_guard_links(&guard);
    H5Fget_name(dataset, path, sizeof path);
    for (size_t i = 0; i < count; i++) {
        H5Pget_virtual_filename(creation, i, file, sizeof file);
        H5Pget_virtual_dsetname(creation, i, name, sizeof name);
        if (!strchr(file, '%') && !strchr(name, '%')) continue;
        int last = h5_last_block(path, file, name, links, &found);
        if (last >= 0 && last + 1 - found > gap) gap = last + 1 - found;
    }
    H5Pclose(links);
    h5_guard_end(&guard);
    H5Pclose(creation);
    if (gap == 0) return dataset;
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS), id = H5Iget_file_id(dataset);
    H5Iget_name(dataset, name, sizeof name);
    H5Dclose(dataset); /* its shape does not change while it is open */
    H5Pset_virtual_printf_gap(access, (hsize_t)gap);
    dataset = H5Dopen2(id, name, access);
    H5Pclose(access);
    H5Fclose(id);
    return dataset;
}
