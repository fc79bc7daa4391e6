/* h5kind.c - finds the kind of a data set by one table of rules about its attributes, its name and its group; then by
 * the other data sets of the group. */
#include "h5kind.h"

#include "../../base/path.h"
#include "../h5/h5attribute.h"
#include "../h5/h5scale.h"
#include "../h5/h5type.h"
#include "h5list.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* The names of each kind: of one data set, and of several. */
static const struct {
    const char *one, *several;
} kind_names[H5_KINDS] = {
    [H5_VALUES] = {"", ""},
    [H5_SINGLE] = {"single element", "single elements"},
    [H5_CODES] = {"index or code", "indices or codes"},
    [H5_MASK] = {"mask", "masks"},
    [H5_COORDINATES] = {"coordinates", "coordinates"},
    [H5_SCALAR] = {"scalar", "scalars"},
    [H5_SPARSE] = {"part of a sparse matrix", "parts of sparse matrices"},
    [H5_PLACEHOLDER] = {"netCDF dimension without a variable", "netCDF dimensions without a variable"},
    [H5_MATLAB_TEXT] = {"MATLAB text", "MATLAB texts"},
    [H5_MATLAB_EMPTY] = {"empty MATLAB array", "empty MATLAB arrays"},
    [H5_MATLAB_OBJECT] = {"MATLAB object", "MATLAB objects"},
    [H5_SEARCH_INDEX] = {"data set of PyTables' search index", "data sets of PyTables' search index"},
    [H5_REFERENCED] = {"data set that MATLAB refers to", "data sets that MATLAB refers to"},
    [H5_ALIAS] = {"other name", "other names"},
};

const char *h5_kind_name(enum h5_kind kind, double count) {
    return count == 1 ? kind_names[kind].one : kind_names[kind].several;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool attribute_begins(hid_t object, const char *attribute, const char *text) {
    OWNED char *value = h5_get_text(object, attribute);
    return value && strncmp(value, text, strlen(text)) == 0;
}

unsigned h5_attribute_marks(hid_t dataset) {
    if (!h5_has_attributes(dataset)) return 0;
    unsigned marks = H5_MARK_ANY;
    if (attribute_begins(dataset, "CLASS", "DIMENSION_SCALE")) {
        marks |= H5_MARK_SCALE;
        if (attribute_begins(dataset, "NAME", H5_PLACEHOLDER_NAME)) marks |= H5_MARK_PLACEHOLDER;
    }
    OWNED char *class = h5_get_text(dataset, "MATLAB_class");
    if (!class) return marks;
    marks |= H5_MARK_MATLAB;
    if (strcmp(class, "char") == 0) marks |= H5_MARK_TEXT;
    if (strcmp(class, "logical") == 0) marks |= H5_MARK_LOGICAL;
    if (H5Aexists(dataset, "MATLAB_empty") > 0) marks |= H5_MARK_EMPTY;
    if (H5Aexists(dataset, "MATLAB_object_decode") > 0) marks |= H5_MARK_OBJECT;
    return marks;
}

/* Describes a dimension without values. netCDF gives a variable that has the name of a dimension, but is not its
 * coordinates, another name: the dimension's data set has its own. */
static char *placeholder_text(hid_t file, const char *path) {
    const char *name = path_name(path);
    OWNED char *variable = must_printf("%.*s_nc4_non_coord_%s", (int)(name - path), path, name);
    if (H5Lexists(file, variable, H5P_DEFAULT) > 0)
        return must_printf("is a netCDF dimension; its variable '%s' is in '%s'", name, variable);
    return must_strdup("is a netCDF dimension without a variable: it has a length, no elements");
}

char *h5_stand_in_text(hid_t file, const char *name, hid_t dataset) {
    unsigned marks = h5_attribute_marks(dataset);
    OWNED char *group = must_printf("%.*s.", (int)(path_name(name) - name), name);
    if (marks & H5_MARK_PLACEHOLDER) return placeholder_text(file, name);
    if (marks & H5_MARK_EMPTY)
        return must_strdup("is an empty MATLAB array: its data set holds its sizes, no elements");
    if (marks & H5_MARK_OBJECT)
        return must_strdup(
            "is a MATLAB object, such as a string, table or datetime, whose values only MATLAB can find: "
            "save them there as plain arrays");
    if (marks && H5Aexists(dataset, "value_type") > 0 && H5Aexists(dataset, "shape") > 0)
        return must_strdup("is an empty array of pandas: its data set holds one arbitrary element");
    if (strcmp(path_name(name), "value") == 0 && H5Aexists_by_name(file, group, "OCTAVE_EMPTY_MATRIX", H5P_DEFAULT) > 0)
        return must_strdup("is an empty Octave array: its data set holds its sizes, no elements");
    return NULL;
}

/* ---- the rules --------------------------------------------------------------------------------------------------- */

/* A rule applies if the data set meets all conditions that are set; the first rule that applies decides. A text is a
 * list of shell patterns, one of which must match; the case of letters does not count. */
struct rule {
    enum h5_kind kind;
    unsigned mark;      /* the data set has one of these marks */
    const char *path;   /* path from the group that was asked for to the data set's group, with a slash at both ends */
    const char *name;   /* last component of the data set's name */
    int max_axes;       /* largest number of axes that are longer than 1; 0: any number */
    bool only_integers; /* the elements are integers: this excludes a "refractive_index" */
};

static const struct rule rules[] = {
    {.kind = H5_PLACEHOLDER, .mark = H5_MARK_PLACEHOLDER},
    {.kind = H5_REFERENCED, .path = "/#refs#/* /#subsystem#/*"},
    {.kind = H5_SEARCH_INDEX, .path = "*/_i_*/*/"},
    {.kind = H5_MATLAB_TEXT, .mark = H5_MARK_TEXT},
    {.kind = H5_MATLAB_EMPTY, .mark = H5_MARK_EMPTY},
    {.kind = H5_MATLAB_OBJECT, .mark = H5_MARK_OBJECT},
    {.kind = H5_COORDINATES, .mark = H5_MARK_SCALE},
    {.kind = H5_COORDINATES,
     .name = "t time times timestamp timestamps valid_time lev level levels plev depth height altitude",
     .max_axes = 1},
    {.kind = H5_COORDINATES,
     .name = "lat lon latitude longitude rlat rlon xlat xlong xlon nav_lat nav_lon",
     .max_axes = 3},
    {.kind = H5_COORDINATES, .name = "*_bnds *_bounds", .max_axes = 3},
    {.kind = H5_COORDINATES, .name = "axis[0-9]* block[0-9]*_items", .max_axes = 1}, /* pandas */
    {.kind = H5_CODES, .path = "*/indexes/* */__categories/*", .only_integers = true},
    {.kind = H5_CODES,
     .name = "indptr indices index ids id codes *_id *_ids *_idx *_index *_indices *_codes *_offset *_offsets",
     .max_axes = 2,
     .only_integers = true},
    {.kind = H5_MASK, .name = "mask *_mask", .only_integers = true},
};

/* Does the text match one of the patterns? */
static bool matches_any(const char *patterns, const char *text) {
    OWNED char *list = must_strdup(patterns);
    char *rest = list;
    bool found = false;
    for (char *pattern; !found && (pattern = strsep(&rest, " "));) found = fnmatch(pattern, text, FNM_CASEFOLD) == 0;
    return found;
}

static bool is_integer(const struct h5_entry *entry) {
    return strncmp(entry->type, "int", 3) == 0 || strncmp(entry->type, "uint", 4) == 0;
}

static bool rule_applies(const struct rule *rule, const struct h5_entry *entry, const char *path, const char *name) {
    return (!rule->mark || entry->marks & rule->mark) && (!rule->max_axes || entry->long_axes <= rule->max_axes) &&
           (!rule->only_integers || is_integer(entry)) && (!rule->name || matches_any(rule->name, name)) &&
           (!rule->path || matches_any(rule->path, path));
}

/* The kind of a data set by the rules, or H5_SCALAR or H5_SINGLE if it has one element and no rule forbids that.
 * `below`: length of the name of the group that was asked for; H5_VALUES if that is the data set itself. */
static enum h5_kind kind_by_rules(const struct h5_entry *entry, size_t below) {
    const char *slash = strrchr(entry->name, '/');
    if (!slash || slash < entry->name + below) return H5_VALUES;
    OWNED char *path = must_printf("%.*s/", (int)(slash - entry->name - (long)below), entry->name + below);
    enum h5_kind kind = H5_VALUES;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && kind == H5_VALUES; i++)
        if (rule_applies(&rules[i], entry, path, slash + 1)) kind = rules[i].kind;
    if (kind < H5_NO_INPUT && entry->rank == 0 && entry->elements == 1) return H5_SCALAR;
    return kind < H5_CODES && entry->elements == 1 ? H5_SINGLE : kind;
}

enum h5_kind h5_kind_of_field(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].name && matches_any(rules[i].name, name)) return rules[i].kind;
    return H5_VALUES;
}

/* ---- other data sets of the group -------------------------------------------------------------------------------- */

/* The length of the name of an entry's group, without a slash at its end. */
static size_t group_length(const struct h5_entry *entry) {
    return (size_t)(strrchr(entry->name, '/') - entry->name);
}

static bool is_in_group(const struct h5_entry *entry, const char *group, size_t length) {
    return group_length(entry) == length && strncmp(entry->name, group, length) == 0;
}

/* Is the entry's name a letter that often names a coordinate? */
static bool has_letter_name(const struct h5_entry *entry) {
    const char *name = path_name(entry->name);
    return *name && name[1] == '\0' && strchr("xyzrXYZR", *name);
}

/* Are data sets named x, y, z and so on coordinates of other data sets in their group? If the group contains nothing
 * else, they are components of a vector, unless the name of the group says otherwise. */
static bool letters_are_coordinates(const struct h5_list *list, int at) {
    const char *name = list->entries[at].name;
    size_t length = group_length(&list->entries[at]), parent = length;
    while (parent > 0 && name[parent - 1] != '/') parent--;
    OWNED char *group = must_printf("%.*s", (int)(length - parent), name + parent);
    bool group_has_positions = matches_any("position* coord* axes* grid*", group);
    bool others = false; /* the group has other data sets */
    for (int step = -1; step <= 1; step += 2)
        for (int i = at + step; i >= 0 && i < list->count && !others; i += step) {
            if (strncmp(list->entries[i].name, name, length + 1) != 0) break;
            others = is_in_group(&list->entries[i], name, length) && !has_letter_name(&list->entries[i]);
        }
    return group_has_positions || others;
}

/* The data set `name` in the group of entry number `at`; NULL: there is none. The list is sorted by name. */
static struct h5_entry *sibling(const struct h5_list *list, int at, const char *name) {
    const char *group = list->entries[at].name;
    size_t length = group_length(&list->entries[at]) + 1;
    for (int step = -1; step <= 1; step += 2)
        for (int i = at; i >= 0 && i < list->count && strncmp(list->entries[i].name, group, length) == 0; i += step)
            if (strcmp(list->entries[i].name + length, name) == 0) return &list->entries[i];
    return NULL;
}

/* ---- sparse matrices --------------------------------------------------------------------------------------------- */

/* The shape of a sparse matrix, ", 3x4", from an attribute of its group or a data set in it; "": unknown. The caller
 * frees. */
static char *sparse_shape(hid_t group, const char *name) {
    int64_t size[2] = {0};
    bool found = false;
    struct h5_attribute attribute;
    if (h5_attribute_open(group, name, &attribute)) {
        found = attribute.count == 2 && H5Aread(attribute.id, H5T_NATIVE_INT64, size) >= 0;
        h5_attribute_close(&attribute);
    } else if (H5Lexists(group, name, H5P_DEFAULT) > 0) {
        OWNED_ID hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);
        OWNED_ID hid_t space = dataset < 0 ? dataset : H5Dget_space(dataset);
        found = space >= 0 && H5Sget_simple_extent_npoints(space) == 2 &&
                H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, size) >= 0;
    }
    return found ? must_printf(", %lldx%lld", (long long)size[0], (long long)size[1]) : must_strdup("");
}

/* The format and shape of a sparse matrix, "csc, 3x4", from its group. `columns`: its data set of column or row begins.
 * The caller frees. */
static char *sparse_form(hid_t group, const struct h5_entry *columns) {
    int64_t rows = h5_get_integer(group, "MATLAB_sparse", -1);
    if (rows >= 0) return must_printf("csc, %lldx%.0f", (long long)rows, columns->elements - 1);
    if (strcmp(path_name(columns->name), "cidx") == 0) return must_strdup("csc");
    OWNED char *encoding = h5_get_text(group, "encoding-type");
    if (!encoding) encoding = h5_get_text(group, "h5sparse_format");
    const char *format = encoding && strncmp(encoding, "csr", 3) == 0   ? "csr"
                         : encoding && strncmp(encoding, "csc", 3) == 0 ? "csc"
                                                                        : "csr or csc";
    OWNED char *shape = sparse_shape(group, H5Aexists(group, "h5sparse_shape") > 0 ? "h5sparse_shape" : "shape");
    return must_printf("%s%s", format, shape);
}

/* Makes the data sets of a sparse matrix H5_SPARSE, and gives one of them a note. Recognises the matrix, if entry
 * number `at` has its column or row begins, by their names: data, indices, indptr (anndata, scipy; 10x Genomics, where
 * `shape` is a data set too); data, ridx, cidx (Octave); data, ir, jc (MATLAB, where an empty matrix has only jc). */
static void find_sparse(hid_t file, struct h5_list *list, int at) {
    const char *name = strrchr(list->entries[at].name, '/') + 1;
    bool matlab = strcmp(name, "jc") == 0, octave = strcmp(name, "cidx") == 0;
    if (!matlab && !octave && strcmp(name, "indptr") != 0) return;
    struct h5_entry *parts[] = {&list->entries[at],
                                sibling(list, at,
                                        matlab   ? "ir"
                                        : octave ? "ridx"
                                                 : "indices"),
                                sibling(list, at, "data"), sibling(list, at, "shape")};
    size_t length = group_length(&list->entries[at]);
    OWNED char *path = must_printf("%.*s", length ? (int)length : 1, list->entries[at].name);
    OWNED_ID hid_t group = H5Gopen2(file, path, H5P_DEFAULT);
    if (group >= 0 && (matlab ? H5Aexists(group, "MATLAB_sparse") > 0 : parts[1] && parts[2])) {
        OWNED char *form = sparse_form(group, parts[0]);
        parts[0]->note = must_printf("%s is a sparse matrix (%s, %.0f elements stored)", path, form,
                                     parts[2] ? parts[2]->elements : 0);
        for (int i = 0; i < 4; i++)
            if (parts[i]) parts[i]->kind = H5_SPARSE;
    }
}

/* ---- links to one data set --------------------------------------------------------------------------------------- */

/* Sorts entries by the data set that they link to; of the entries of one data set, hard links come first. */
static int compare_objects(const void *one, const void *other) {
    const struct h5_entry *const a = *(struct h5_entry *const *)one, *const b = *(struct h5_entry *const *)other;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    if (a->address != b->address) return a->address < b->address ? -1 : 1;
    if (a->linked != b->linked) return a->linked - b->linked;
    return strcmp(a->name, b->name);
}

/* Makes all entries of one data set but the first H5_ALIAS. */
static void find_aliases(struct h5_list *list) {
    OWNED struct h5_entry **by_object = must_malloc((unsigned long)list->count * sizeof(struct h5_entry *) + 1);
    for (int i = 0; i < list->count; i++) by_object[i] = &list->entries[i];
    qsort(by_object, (size_t)list->count, sizeof(struct h5_entry *), compare_objects);
    const struct h5_entry *first = NULL;
    for (int i = 0; i < list->count; i++) {
        struct h5_entry *entry = by_object[i];
        if (first && entry->file == first->file && entry->address == first->address) {
            entry->kind = H5_ALIAS;
            entry->same_as = first->name;
        } else {
            first = entry;
        }
    }
}

void h5_find_kinds(hid_t file, struct h5_list *list, size_t below) {
    for (int i = 0; i < list->count; i++) list->entries[i].kind = kind_by_rules(&list->entries[i], below);
    bool asked_for_it = list->count == 1 && strlen(list->entries[0].name) == below; /* for this data set, no group */
    if (asked_for_it) return;
    for (int i = 0; i < list->count; i++) {
        struct h5_entry *entry = &list->entries[i];
        if (entry->kind == H5_VALUES && entry->long_axes == 1 && has_letter_name(entry) &&
            letters_are_coordinates(list, i))
            entry->kind = H5_COORDINATES;
    }
    for (int i = 0; i < list->count; i++) find_sparse(file, list, i);
    find_aliases(list);
}
