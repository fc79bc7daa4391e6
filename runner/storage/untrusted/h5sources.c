/* h5sources.c - walks the mappings of a virtual data set, and the mappings of sources that are virtual too. A mapping
 * shows a part of a source as a part of the virtual data set. One kind of walk counts the absent elements, which no
 * source has, and sets `read_by_source` if h5_read_by_source must replace H5Dread. The other kind reads, for
 * h5_read_by_source.
 *
 * H5Sselect_project_intersection projects the selected elements of a mapping's virtual part into its source and into
 * memory. HDF5 1.10 reads a source that is missing, or cannot be opened, as fill values; later versions fail. Both fail
 * if a source does not have the shape that was mapped. */
#include "h5sources.h"

#include "../../base/fail.h"
#include "../../base/texts.h"
#include "../h5/filters.h"
#include "../h5/h5slab.h"
#include "../h5/h5virtual.h"
#include "h5fault.h"
#include "h5guard.h"
#include "h5names.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    MAX_DEPTH = 16,  /* most levels of virtual data sets */
    SPARE_FILES = 64 /* file descriptors that remain for all but the sources */
};

/* A walk over the mappings of a virtual data set. */
struct source_walk {
    const char *path, *name;  /* the outermost data set's, for messages */
    struct h5_absent *absent; /* counts absent elements; NULL: the walk reads */
    void *data;               /* where a walk that reads stores elements */
    hid_t type;               /* type in memory; in a walk that counts: the type of the outermost data set */
    struct h5_guard guard;    /* refuses links to pipes */
    struct error error;
    int depth;
};

/* A source that a walk has tried to open. */
struct source {
    hid_t file, dataset; /* negative: cannot be opened */
    char *why;           /* why the source, or a part of it, is absent; NULL: it is there */
};

/* Visits the elements `seen`, a selection of a data set, and follows the mappings of a virtual one. A walk that reads
 * stores them at `memory`, a selection of walk->data. A walk that counts checks that they can be read. */
static void visit(struct source_walk *walk, hid_t dataset, hid_t seen, hid_t memory);

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Opens the file of a source, which the file `from` names. Negative: *why has the reason. */
static hid_t open_file(const char *from, const char *name, char **why) {
    FREED_BY(texts_clear) struct texts names = h5_names_of(from, name, "HDF5_VDS_PREFIX");
    struct error error = {0};
    int number = 0;
    hid_t file = h5_open_first(&names, &number, &error);
    if (file < 0) *why = must_strdup(error.status ? fail_without_path(&error, names.items[number]) : "is not there");
    return file;
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* One mapping: `virtual_part`, a selection of the virtual data set, shows `source_part`, a selection of a source. */
struct source_mapping {
    hid_t dataset;     /* the virtual data set */
    const char *path;  /* its file */
    char *file, *name; /* file and name of the source */
    hid_t virtual_part, source_part;
};

/* Returns mapping number `number` as the file stores it: with %b in its names, and unlimited selections. */
static struct source_mapping stored_mapping(hid_t dataset, hid_t creation, const char *path, size_t number) {
    char file[PATH_MAX] = "", name[PATH_MAX] = "";
    H5Pget_virtual_filename(creation, number, file, sizeof file);
    H5Pget_virtual_dsetname(creation, number, name, sizeof name);
    return (struct source_mapping){.dataset = dataset,
                                   .path = path,
                                   .file = must_strdup(file),
                                   .name = must_strdup(name),
                                   .virtual_part = H5Pget_virtual_vspace(creation, number),
                                   .source_part = H5Pget_virtual_srcspace(creation, number)};
}

/* Returns a copy of a mapping with the names of block number `block`. */
static struct source_mapping block_mapping(const struct source_mapping *stored, int block) {
    bool numbered;
    struct source_mapping mapping = *stored;
    mapping.file = h5_block_name(stored->file, block, &numbered);
    mapping.name = h5_block_name(stored->name, block, &numbered);
    mapping.virtual_part = H5Scopy(stored->virtual_part);
    mapping.source_part = H5Scopy(stored->source_part);
    return mapping;
}

/* Replaces both selections of a mapping. */
static void set_selections(struct source_mapping *mapping, hid_t virtual_part, hid_t source_part) {
    H5Sclose(mapping->virtual_part);
    H5Sclose(mapping->source_part);
    mapping->virtual_part = virtual_part;
    mapping->source_part = source_part;
}

static void close_mapping(const struct source_mapping *mapping) {
    H5Sclose(mapping->virtual_part);
    H5Sclose(mapping->source_part);
    free(mapping->file);
    free(mapping->name);
}

/* Opens the source of a mapping; if it fails, `dataset` is negative and `why` has the reason. */
static struct source open_source(const struct source_walk *walk, const struct source_mapping *mapping) {
    const char *file = mapping->file, *name = mapping->name;
    struct source source = {H5I_INVALID_HID, H5I_INVALID_HID, NULL};
    source.file =
        strcmp(file, ".") == 0 ? H5Iget_file_id(mapping->dataset) : open_file(mapping->path, file, &source.why);
    if (source.file < 0) return source;
    struct error error = {0};
    source.dataset = H5Oopen(source.file, name, walk->guard.links);
    if (source.dataset < 0 && h5_fail_object(source.file, file, name, &error)) {
        const char *text = fail_without_path(&error, file);
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

/* Counts `elements` elements of the source of a mapping as absent. */
static void count_absent(const struct source_walk *walk, const struct source_mapping *mapping, hssize_t elements,
                         const char *why) {
    const char *file = mapping->file, *name = mapping->name;
    if (!walk->absent) return;
    walk->absent->elements += elements;
    walk->absent->read_by_source = true;
    if (walk->absent->sources++ == 0)
        walk->absent->first = strcmp(file, ".") == 0 ? must_printf("'%s', which %s", name, why)
                                                     : must_printf("'%s' in %s, which %s", name, file, why);
}

/* Creates a box of `rank` axes with the elements of `virtual_part`, a regular hyperslab, without axes of one element.
 * Negative: there is no such box. */
static hid_t box_of_virtual_part(hid_t virtual_part, int rank) {
    const struct h5_slab slab = h5_slab_of(virtual_part);
    hsize_t size[H5S_MAX_RANK];
    int kept = 0, drop = slab.rank - rank;
    for (int i = 0; i < slab.rank; i++)
        if (drop > 0 && slab.count[i] * slab.block[i] == 1)
            drop--;
        else
            size[kept++] = slab.count[i] * slab.block[i];
    return kept == rank && rank > 0 ? h5_slab_box(rank, size) : H5I_INVALID_HID;
}

/* Fits a mapping whose part is H5S_ALL, which does not state the shape of the source. HDF5 maps the same number of
 * elements of any shape, and fails if their number has changed. false: no shape fits the virtual part. */
static bool fit_whole_source(struct source_walk *walk, struct source_mapping *mapping, hid_t space) {
    bool same = H5Sget_simple_extent_npoints(space) == h5_slab_points(mapping->virtual_part);
    hid_t source_part =
        same ? H5Scopy(space) : box_of_virtual_part(mapping->virtual_part, H5Sget_simple_extent_ndims(space));
    if (!same && walk->absent) walk->absent->read_by_source = true;
    if (source_part < 0) return false;
    h5_as_slab(source_part);
    set_selections(mapping, H5Scopy(mapping->virtual_part), source_part);
    return true;
}

/* Removes the part of a mapping that is outside a shape. */
static void remove_outside(struct source_mapping *mapping, int rank, const hsize_t size[]) {
    OWNED_ID hid_t inside = h5_slab_box(rank, size);
    hid_t virtual_part = H5Sselect_project_intersection(mapping->source_part, mapping->virtual_part, inside);
    hid_t part = H5Sselect_project_intersection(mapping->source_part, mapping->source_part, inside);
    set_selections(mapping, virtual_part, part);
}

/* Fits a mapping to the shape of its source. Returns why a part of it is absent; NULL: nothing is. */
static char *fit_to_source(struct source_walk *walk, struct source_mapping *mapping, hid_t source) {
    hsize_t size[H5S_MAX_RANK], last[H5S_MAX_RANK], first[H5S_MAX_RANK];
    OWNED_ID hid_t space = H5Dget_space(source);
    int rank = H5Sget_simple_extent_dims(space, size, NULL);
    bool has_shape = H5Sget_select_type(mapping->source_part) != H5S_SEL_ALL || fit_whole_source(walk, mapping, space);
    bool is_inside = true;
    char text[SHAPE_TEXT];
    struct shape shape = {.rank = rank < MAX_RANK ? rank : MAX_RANK};
    for (int i = 0; i < shape.rank; i++) shape.size[i] = (int64_t)size[i];
    shape_format(&shape, text);
    if (!has_shape || rank != H5Sget_simple_extent_ndims(mapping->source_part)) {
        H5Sselect_none(mapping->virtual_part);
        H5Sselect_none(mapping->source_part);
        return must_printf("is %s, not what is mapped", text);
    }
    if (h5_slab_points(mapping->source_part) == 0 || H5Sget_select_bounds(mapping->source_part, first, last) < 0)
        return NULL;
    for (int i = 0; i < rank; i++) is_inside = is_inside && last[i] < size[i];
    if (is_inside) return NULL;
    remove_outside(mapping, rank, size);
    return must_printf("is only %s", text);
}

/* The number of elements of `part` at the positions where `virtual_part` and the seen elements overlap. */
static hssize_t shared_points(hid_t virtual_part, hid_t part, hid_t seen) {
    OWNED_ID hid_t shared = H5Sselect_project_intersection(virtual_part, part, seen);
    return h5_slab_points(shared);
}

/* Visits the elements of a source that the seen elements of the virtual data set show. */
static void visit_part(struct source_walk *walk, const struct source_mapping *mapping, hid_t source, hid_t seen,
                       hid_t memory) {
    OWNED_ID hid_t shown = H5Sselect_project_intersection(mapping->virtual_part, mapping->source_part, seen);
    OWNED_ID hid_t space = H5Dget_space(source);
    hid_t target = walk->absent ? H5S_ALL : H5Sselect_project_intersection(seen, memory, mapping->virtual_part);
    if (h5_slab_points(shown) > 0) {
        H5Sselect_copy(space, shown); /* keeps the extent of the source */
        visit(walk, source, space, target);
    }
    if (target != H5S_ALL) H5Sclose(target);
}

/* Visits the source of a mapping, if a part of the mapping is seen, and counts the seen elements that it lacks. */
static void visit_mapping(struct source_walk *walk, struct source_mapping *mapping, hid_t seen, hid_t memory) {
    h5_as_slab(mapping->virtual_part);
    hssize_t wanted = shared_points(mapping->virtual_part, mapping->virtual_part, seen), present = 0;
    if (wanted == 0) return;
    FREED_BY(close_source) struct source source = open_source(walk, mapping);
    unsigned intent = 0;
    if (source.file >= 0) H5Fget_intent(source.file, &intent);
    if (walk->absent) {
        walk->absent->files += strcmp(mapping->file, ".") != 0;
        walk->absent->read_by_source |= (intent & H5F_ACC_SWMR_READ) != 0; /* HDF5 does not open sources for SWMR */
    }
    if (source.dataset >= 0) {
        source.why = fit_to_source(walk, mapping, source.dataset);
        present = shared_points(mapping->virtual_part, mapping->source_part, seen);
    }
    if (present < wanted) count_absent(walk, mapping, wanted - present, source.why ? source.why : "is too small");
    if (present > 0) visit_part(walk, mapping, source.dataset, seen, memory);
}

/* Checks that the source of a mapping exists, although none of its elements are seen: it still determines the length of
 * the virtual data set. */
static void check_exists(const struct source_walk *walk, const struct source_mapping *mapping) {
    if (!walk->absent) return;
    FREED_BY(close_source) struct source source = open_source(walk, mapping);
    if (source.dataset < 0) count_absent(walk, mapping, 0, source.why);
}

/* The size of the virtual data set along an axis; 0 if HDF5 1.14 cannot tell, because a source is unreadable. */
static hsize_t length_along(hid_t dataset, int axis) {
    hsize_t size[H5S_MAX_RANK] = {0};
    OWNED_ID hid_t space = H5Dget_space(dataset);
    H5Sget_simple_extent_dims(space, size, NULL);
    return size[axis];
}

/* Visits a mapping with numbered sources: block number i of it shows all of source number i, at a place that moves
 * along the unlimited axis. */
static void visit_blocks(struct source_walk *walk, const struct source_mapping *stored, hid_t seen, hid_t memory) {
    struct h5_slab slab = h5_slab_of(stored->virtual_part);
    const int axis = slab.unlimited;
    const hsize_t length = length_along(stored->dataset, axis);
    int found, last = h5_last_block(stored->path, stored->file, stored->name, walk->guard.links, &found);
    if (last < 0) count_absent(walk, stored, 0, "is not there under any number");
    slab.count[axis] = 1;
    for (int i = 0; i <= last && !walk->error.status; i++, slab.start[axis] += slab.stride[axis]) {
        bool within = slab.start[axis] < length; /* HDF5 counts blocks up to the last that it can open */
        if (!within && !h5_slab_reaches(seen, axis, length)) break;
        FREED_BY(close_mapping) struct source_mapping mapping = block_mapping(stored, i);
        if (within) {
            set_selections(&mapping, H5Scopy(seen), H5Scopy(mapping.source_part));
            H5Sselect_hyperslab(mapping.virtual_part, H5S_SELECT_SET, slab.start, slab.stride, slab.count, slab.block);
            visit_mapping(walk, &mapping, seen, memory);
        } else {
            check_exists(walk, &mapping);
        }
    }
}

/* Visits a mapping whose two selections are unlimited, as far as the virtual data set extends. */
static void visit_unlimited(struct source_walk *walk, struct source_mapping *mapping, hid_t seen, hid_t memory) {
    const hsize_t length = length_along(mapping->dataset, h5_slab_of(mapping->virtual_part).unlimited);
    const hsize_t slices = h5_slab_slices(mapping->virtual_part, length);
    set_selections(mapping, h5_slab_limited(mapping->virtual_part, slices),
                   h5_slab_limited(mapping->source_part, slices));
    if (length == 0) check_exists(walk, mapping); /* no source determines its length */
    visit_mapping(walk, mapping, seen, memory);
}

/* Visits all mappings of a virtual data set. A walk that reads first fills the target with the fill value. */
static void visit_virtual(struct source_walk *walk, hid_t dataset, hid_t creation, hid_t seen, hid_t memory) {
    size_t count = 0;
    char path[PATH_MAX] = "";
    H5Fget_name(dataset, path, sizeof path);
    H5Pget_virtual_count(creation, &count);
    if (!walk->absent) h5_fill(creation, walk->type, memory, walk->data);
    for (size_t i = 0; i < count && !walk->error.status; i++) {
        FREED_BY(close_mapping) const struct source_mapping stored = stored_mapping(dataset, creation, path, i);
        const bool virtual_unlimited = h5_slab_of(stored.virtual_part).unlimited >= 0;
        const bool source_unlimited = h5_slab_of(stored.source_part).unlimited >= 0;
        if (virtual_unlimited && !source_unlimited) {
            visit_blocks(walk, &stored, seen, memory);
        } else {
            struct source_mapping mapping = block_mapping(&stored, 0); /* replaces each "%%" in its names by "%" */
            (virtual_unlimited ? visit_unlimited : visit_mapping)(walk, &mapping, seen, memory);
            close_mapping(&mapping);
        }
    }
}

/* ---- data sets --------------------------------------------------------------------------------------------------- */

/* The byte range of the data set that contains a selection; false: the selection is empty. */
static bool find_bytes(hid_t dataset, hid_t seen, hsize_t *from, hsize_t *to) {
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK], size[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(seen, size, NULL);
    OWNED_ID hid_t type = H5Dget_type(dataset);
    hsize_t bytes = H5Tget_size(type), low = 0, high = 0;
    if (H5Sget_select_npoints(seen) <= 0) return false;
    bool bounded = rank > 0 && H5Sget_select_bounds(seen, first, last) >= 0;
    for (int i = 0; bounded && i < rank; i++) {
        low = low * size[i] + first[i];
        high = high * size[i] + last[i];
    }
    *from = low * bytes;
    *to = (high + 1) * bytes;
    return true;
}

/* Checks an open data set in external storage: raw files that hold its elements in row-major order, one after another.
 * STATUS_USAGE: a file with a part of the selection `seen` does not exist or is too short. */
static enum status check_external(hid_t dataset, hid_t creation, const char *path, const char *name, hid_t seen,
                                  struct error *error) {
    hsize_t from, to, begins = 0, bytes = 0;
    if (!find_bytes(dataset, seen, &from, &to)) return STATUS_OK;
    int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && begins < to; i++, begins += bytes) {
        char file[PATH_MAX] = "";
        off_t offset;
        struct stat about;
        if (H5Pget_external(creation, (unsigned)i, sizeof file - 1, file, &offset, &bytes) < 0)
            return fail(error, STATUS_USAGE, "%s: '%s' has a list of external files that cannot be read", path, name);
        if (bytes == H5F_UNLIMITED) bytes = HSIZE_UNDEF - begins;
        if (begins + bytes <= from) continue;
        hsize_t needed = (hsize_t)offset + (to < begins + bytes ? to - begins : bytes);
        FREED_BY(texts_clear) struct texts names = h5_names_external(path, file);
        bool there = stat(names.items[0], &about) == 0;
        if (!there)
            fail(error, STATUS_USAGE, "%s: '%s' is stored in %s, which is not there", path, name, names.items[0]);
        else if ((hsize_t)about.st_size < needed)
            fail(error, STATUS_USAGE, "%s: '%s' is stored in %s, which has %lld bytes of the %llu that are needed",
                 path, name, names.items[0], (long long)about.st_size, (unsigned long long)needed);
        if (error->status) return error->status;
    }
    return STATUS_OK;
}

/* Checks that the elements of a source can be read, and converted to the type of the virtual data set. */
static void check_readable(struct source_walk *walk, hid_t dataset, hid_t creation, hid_t seen) {
    char path[PATH_MAX] = "", name[512] = "";
    OWNED char *missing = filters_needed(dataset, creation);
    H5Fget_name(dataset, path, sizeof path);
    H5Iget_name(dataset, name, sizeof name);
    if (H5Pget_external_count(creation) > 0) check_external(dataset, creation, path, name, seen, &walk->error);
    if (missing && walk->depth == 1)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' is compressed by HDF5 %s", path, name, missing);
    if (missing)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' shows '%s' in %s, which is compressed by HDF5 %s", walk->path,
             walk->name, name, path, missing);
    OWNED_ID hid_t type = H5Dget_type(dataset);
    H5T_cdata_t *conversion;
    if (walk->depth > 1 && !H5Tfind(type, walk->type, &conversion))
        fail(&walk->error, STATUS_USAGE, "%s: '%s' shows '%s' in %s, whose elements are not numbers", walk->path,
             walk->name, name, path);
}

static void visit(struct source_walk *walk, hid_t dataset, hid_t seen, hid_t memory) {
    OWNED_ID hid_t creation = H5Dget_create_plist(dataset);
    walk->depth++;
    if (walk->depth > MAX_DEPTH + 1)
        fail(&walk->error, STATUS_USAGE, "%s: '%s' is made of too many virtual data sets of virtual data sets",
             walk->path, walk->name);
    else if (H5Pget_layout(creation) == H5D_VIRTUAL)
        visit_virtual(walk, dataset, creation, seen, memory);
    else if (walk->absent)
        check_readable(walk, dataset, creation, seen);
    else if (H5Dread(dataset, walk->type, memory, seen, H5P_DEFAULT, walk->data) < 0)
        walk->error.status = STATUS_IO; /* h5_error_text has the reason */
    walk->depth--;
}

/* Begins a walk at the outermost data set. The result is in walk->absent or walk->data, and walk->error. */
static void walk_dataset(struct source_walk *walk, hid_t dataset, hid_t seen, hid_t memory) {
    h5_guard_begin(&walk->guard, EXTERNAL_ALLOW, walk->path, walk->name);
    visit(walk, dataset, seen, memory);
    h5_guard_end(&walk->guard);
}

enum status h5_find_absent(hid_t dataset, const char *path, const char *name, const struct selection *seen,
                           struct h5_absent *absent, struct error *error) {
    *absent = (struct h5_absent){0};
    struct source_walk walk = {.path = path, .name = name, .absent = absent, .type = H5Dget_type(dataset)};
    OWNED_ID hid_t space = H5Dget_space(dataset);
    if (seen)
        h5_slab_select(space, seen);
    else
        h5_as_slab(space);
    walk_dataset(&walk, dataset, space, H5S_ALL);
    H5Tclose(walk.type);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && (rlim_t)absent->files + SPARE_FILES > files.rlim_cur)
        absent->read_by_source = true;
    return walk.error.status ? fail(error, walk.error.status, "%s", walk.error.text) : STATUS_OK;
}

char *h5_absent_source(hid_t dataset, const char *path) {
    if (H5Iget_type(dataset) != H5I_DATASET || !h5_is_virtual(dataset)) return NULL;
    struct h5_absent absent;
    struct error error = {0};
    enum status status = h5_find_absent(dataset, path, "it", NULL, &absent, &error);
    return status && !absent.first ? must_strdup(error.text) : absent.first;
}

herr_t h5_read_by_source(hid_t dataset, hid_t type, hid_t memory_space, hid_t file_space, void *data) {
    struct source_walk walk = {.path = "", .name = "", .data = data, .type = type};
    OWNED_ID hid_t memory = H5Scopy(memory_space), seen = H5Scopy(file_space);
    h5_as_slab(memory);
    h5_as_slab(seen);
    walk_dataset(&walk, dataset, seen, memory);
    return walk.error.status ? -1 : 0;
}

/* The largest number of sources that are missing before an existing one, over all mappings with numbered sources. */
struct gap {
    const char *path;
    hid_t links;
    int sources;
};

/* Visits a source; if its name is numbered ("%b"), raises gap->sources to how many of its blocks are missing before the
 * last existing one. Always returns true, so that all sources are visited. */
static bool find_gap(void *context, const char *file, const char *name) {
    struct gap *gap = context;
    int found, last;
    if (!strchr(file, '%') && !strchr(name, '%')) return true;
    last = h5_last_block(gap->path, file, name, gap->links, &found);
    if (last + 1 - found > gap->sources) gap->sources = last + 1 - found;
    return true;
}

hid_t h5_reopen_past_gaps(hid_t dataset) {
    char path[PATH_MAX] = "", name[PATH_MAX] = "";
    if (!h5_is_virtual(dataset)) return dataset;
    H5_GUARD(guard, EXTERNAL_ALLOW, path, "/");
    H5Fget_name(dataset, path, sizeof path);
    struct gap gap = {path, guard.links, 0};
    OWNED_ID hid_t creation = H5Dget_create_plist(dataset);
    h5_each_source(creation, NULL, find_gap, &gap);
    if (gap.sources == 0) return dataset;
    OWNED_ID hid_t access = H5Pcreate(H5P_DATASET_ACCESS), id = H5Iget_file_id(dataset);
    H5Iget_name(dataset, name, sizeof name);
    H5Dclose(dataset); /* its shape does not change while it is open */
    H5Pset_virtual_printf_gap(access, (hsize_t)gap.sources);
    return H5Dopen2(id, name, access);
}
