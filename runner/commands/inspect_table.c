/* inspect_table.c - prints the data sets of a file on one screen, or one data set in detail. */
#include "inspect.h"

#include "../base/table.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/h5/h5.h"
#include "../storage/untrusted/h5cf.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_LINES = 6, /* lines about hidden data sets of one kind */
    /* A data set with this many chunks, each smaller than this, is slow to read. */
    MANY_CHUNKS = 1000,
    SMALL_CHUNK_BYTES = 4096
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { NAME, SHAPE, AXES, TYPE, USE, LAYOUT, FILTERS, MEMORY, DISK, INPUT, COLUMNS };
static const struct table_column columns[COLUMNS] = {
    [NAME] = {.name = "data set"},
    [SHAPE] = {.name = "shape"},
    [AXES] = {.name = "axes", .priority = 5},
    [TYPE] = {.name = "type"},
    [USE] = {.name = "use", .priority = 6},
    [LAYOUT] = {.name = "layout", .priority = 2},
    [FILTERS] = {.name = "filters", .priority = 3},
    [MEMORY] = {.name = "in memory", .right = true, .priority = 1},
    [DISK] = {.name = "on disk", .right = true, .priority = 4},
    [INPUT] = {.name = "as an input"},
};

/* The names of the axes, "time, -, lon"; "": no axis has a name. The caller frees. */
static char *axes_text(const struct h5_entry *entry) {
    char *text = must_strdup("");
    bool any = false;
    for (int axis = 0; axis < entry->rank && axis < MAX_RANK; axis++) {
        must_append(&text, "%s%.60s", axis ? ", " : "", entry->axes[axis] ? entry->axes[axis] : "-");
        any |= entry->axes[axis] != NULL;
    }
    if (!any) *text = '\0';
    return text;
}

/* Adds the row of a data set: its name, shape, type, storage and remarks. */
static void add_row(struct table *table, const struct listing *listing, const struct input_candidate *candidate) {
    const struct h5_entry *entry = candidate->entry;
    char text[32];
    OWNED char *axes = axes_text(entry);
    table_row(table);
    table_cell(table, NAME, "%s", entry->name);
    table_cell(table, SHAPE, "%s", entry->shape);
    table_cell(table, AXES, "%s", axes);
    table_cell(table, TYPE, "%s", entry->type);
    table_cell(table, USE, "%s", candidate_use(entry));
    table_cell(table, LAYOUT, "%s", entry->layout);
    table_cell(table, FILTERS, "%s", entry->filters);
    if (entry->bytes > 0) table_cell(table, MEMORY, "%s", size_text(entry->bytes, text));
    if (entry->stored > 0) table_cell(table, DISK, "%s", size_text(entry->stored, text));
    if (entry->same_as) {
        table_cell(table, INPUT, "the same as %s", entry->same_as);
    } else if (entry->kind >= H5_NO_INPUT) {
        table_cell(table, INPUT, "no: %s", h5_kind_name(entry->kind, 1));
    } else if (!candidate->unusable.status) {
        table_cell(table, INPUT, "%.1f GB/s", candidate->bytes_per_s / 1e9);
    } else if (candidate->by_field) {
        const struct texts *fields = &entry->fields;
        table_cell(table, INPUT, "by field: %.40s%s%.40s%s", fields->items[0], fields->count > 1 ? ", " : "",
                   fields->count > 1 ? fields->items[1] : "", fields->count > 2 ? ", ..." : "");
    } else {
        OWNED char *why = candidate_reason(listing, candidate, true);
        table_cell(table, INPUT, "no: %s", why);
    }
}

/* Prints a row for each data set that is not hidden. */
static void print_rows(struct listing *listing) {
    OWNED struct h5_entry **which = must_malloc((unsigned long)listing->list.count * sizeof *which + 1);
    int count = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (!listing->candidates[i].hidden) which[count++] = listing->candidates[i].entry;
    h5_list_axes(listing->path, &listing->list, which, count);
    if (count == 0) return;
    FREED_BY(table_release) struct table *table = table_create(columns, COLUMNS);
    printf("\n");
    for (int i = 0; i < listing->list.count; i++)
        if (!listing->candidates[i].hidden) add_row(table, listing, &listing->candidates[i]);
    table_print(table, table_terminal_width(), NULL, stdout);
}

/* ---- hidden data sets -------------------------------------------------------------------------------------------- */

/* The group that gets one line for its data sets of this kind: their own group, the group of a whole index, or the
 * group of everything that cells refer to. The caller frees. */
static char *group_of(const struct h5_entry *entry) {
    const char *end = strrchr(entry->name, '/'), *index = strstr(entry->name, "/_i_");
    if (entry->kind == H5_SEARCH_INDEX && index) end = index + 1 + strcspn(index + 1, "/");
    if (entry->kind == H5_REFERENCED) end = entry->name + 1 + strcspn(entry->name + 1, "/");
    return must_printf("%.*s", end == entry->name ? 1 : (int)(end - entry->name), entry->name);
}

/* Prints a line for each group with data sets of a kind, or one line about all if that were too many. */
static void print_kind(const struct listing *listing, enum h5_kind kind) {
    char **groups = must_malloc((unsigned long)listing->list.count * sizeof *groups + 1);
    int count = 0, lines = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (listing->list.entries[i].kind == kind) groups[count++] = group_of(&listing->list.entries[i]);
    qsort(groups, (size_t)count, sizeof *groups, text_compare);
    for (int i = 0; i < count; i++) lines += i == 0 || strcmp(groups[i], groups[i - 1]) != 0;
    if (lines > MAX_LINES)
        text_print(stdout, "  %d %s in %d groups, such as %s\n", count, h5_kind_name(kind, count), lines, groups[0]);
    for (int i = 0, end; i < count && lines <= MAX_LINES; i = end) {
        for (end = i; end < count && strcmp(groups[i], groups[end]) == 0;) end++;
        text_print(stdout, "  %s: %d %s\n", groups[i], end - i, h5_kind_name(kind, end - i));
    }
    texts_free(groups, count);
}

static void print_sparse(const struct listing *listing) {
    int count = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (listing->list.entries[i].note && ++count <= MAX_LINES)
            text_print(stdout, "  %s: jobs cannot read it; make a dense copy\n", listing->list.entries[i].note);
    if (count > MAX_LINES) printf("  %d more sparse matrices\n", count - MAX_LINES);
}

static void print_aliases(const struct listing *listing) {
    int count = 0;
    for (int i = 0; i < listing->list.count; i++) {
        const struct h5_entry *entry = &listing->list.entries[i];
        if (entry->kind == H5_ALIAS && ++count <= MAX_LINES)
            text_print(stdout, "  %s is %s\n", entry->name, entry->same_as);
    }
    if (count > MAX_LINES) printf("  %d more names of other data sets\n", count - MAX_LINES);
}

/* Prints a line for each row that represents hidden data sets, and the number of those that no row represents. */
static void print_alike(const struct listing *listing) {
    int lines = 0, more = 0;
    for (int i = 0; i < listing->list.count; i++) {
        const struct input_candidate *candidate = &listing->candidates[i];
        if (candidate->alike == 0) continue;
        if (++lines <= 2 * MAX_LINES)
            text_print(stdout, "  %d like %s, up to %s\n", candidate->alike, candidate->entry->name,
                       candidate->last_alike);
        else
            more += candidate->alike;
    }
    if (more) printf("  %d more like other rows\n", more);
    if (listing->left_out) printf("  %d other data sets\n", listing->left_out);
}

/* Prints lines about the data sets that have no rows. */
static void print_hidden(const struct listing *listing) {
    int count = 0;
    for (int i = 0; i < listing->list.count; i++) count += listing->candidates[i].hidden;
    if (count == 0) return;
    printf("\nnot listed (--all lists them):\n");
    print_alike(listing);
    for (enum h5_kind kind = H5_NO_INPUT; kind < H5_KINDS; kind++) {
        if (kind == H5_SPARSE)
            print_sparse(listing);
        else if (kind == H5_ALIAS)
            print_aliases(listing);
        else
            print_kind(listing, kind);
    }
}

/* ---- remarks ----------------------------------------------------------------------------------------------------- */

/* Writes "12,345,678" into `text` and returns it. */
static const char *thousands(double count, char text[48]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", count), to = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[to++] = ',';
        text[to++] = digits[i];
    }
    text[to] = '\0';
    return text;
}

/* Names the data sets that are slow to read because they have many small chunks, and the command that gives a copy
 * larger chunks. */
static void print_tiny_chunks(const struct listing *listing) {
    int count = 0;
    for (int i = 0; i < listing->list.count; i++) {
        const struct input_candidate *candidate = &listing->candidates[i];
        const struct h5_entry *entry = candidate->entry;
        if (candidate->hidden || candidate->unusable.status || entry->chunks < MANY_CHUNKS ||
            entry->chunk_bytes >= SMALL_CHUNK_BYTES)
            continue;
        if (++count > MAX_LINES / 2) continue;
        char sizes[SHAPE_TEXT], chunks[48], bytes[48];
        struct shape chunk =
            h5_chunk(candidate->array.dtype, &candidate->array.view.source, &(struct h5_layout){.shuffle = true});
        printf("\n");
        text_print(stdout, "%s: %s chunks of %s bytes: slow to read; h5repack -l %s:CHUNK=%s %s COPY.h5\n", entry->name,
                   thousands(entry->chunks, chunks), thousands(entry->chunk_bytes, bytes), entry->name + 1,
                   shape_format(&chunk, sizes), listing->path);
    }
    if (count > MAX_LINES / 2) printf("%d more data sets have chunks as small\n", count - MAX_LINES / 2);
}

/* If MATLAB wrote the file, explains that MATLAB lists axes in reverse order; the largest data set is the
 * example. */
static void print_matlab(const struct listing *listing) {
    const struct h5_entry *largest = NULL;
    for (int i = 0; i < listing->list.count; i++) {
        const struct input_candidate *candidate = &listing->candidates[i];
        if (!candidate->hidden && candidate->entry->marks & H5_MARK_MATLAB && candidate->entry->rank > 1 &&
            (!largest || candidate->entry->elements > largest->elements))
            largest = candidate->entry;
    }
    if (!largest) return;
    printf("\n");
    text_print(stdout, "MATLAB wrote %s: its axes are in reverse order here, and in MATLAB %s is ",
               listing->list.count == 1 ? "it" : "this file", largest->name);
    for (const char *end = largest->shape + strlen(largest->shape), *at = end; at > largest->shape; end = at - 1) {
        for (at = end; at > largest->shape && at[-1] != 'x';) at--;
        printf("%s%.*s", end[0] ? "x" : "", (int)(end - at), at);
    }
    printf("\n");
}

static void print_remarks(const struct listing *listing) {
    print_matlab(listing);
    print_tiny_chunks(listing);
}

/* Prints "a link leads nowhere: /x" or "3 links lead nowhere, such as /x"; nothing for no links. */
static void print_links(int count, const char *first, const char *what_one, const char *what_several) {
    if (count == 0) return;
    OWNED char *name = text_clean(first);
    if (count == 1)
        printf("\na link %s: %s\n", what_one, name);
    else
        printf("\n%d links %s, such as %s\n", count, what_several, name);
}

void inspect_print_table(struct listing *listing) {
    double bytes = 0;
    int count = 0;
    char text[32];
    for (int i = 0; i < listing->list.count; i++) {
        const struct h5_entry *entry = &listing->list.entries[i];
        bytes += entry->kind == H5_ALIAS ? 0 : entry->bytes;
        count += entry->kind != H5_ALIAS;
    }
    OWNED char *path = text_clean(listing->path);
    printf("%s: %d data set%s, %s in memory; %d can be inputs of a job\n", path, count, count == 1 ? "" : "s",
           size_text(bytes, text), listing->usable);
    if (listing->usable == 0 && count > 0) {
        OWNED char *reasons = listing_reasons(listing);
        printf("(%s)\n", reasons);
    }
    print_rows(listing);
    print_hidden(listing);
    print_remarks(listing);
    const struct h5_list *list = &listing->list;
    print_links(list->broken, list->first_broken, "leads nowhere", "lead nowhere");
    print_links(list->outside, list->first_outside, "that leads out of the file's folder is not followed",
                "that lead out of the file's folder are not followed");
}

/* ---- one data set ------------------------------------------------------------------------------------------------ */

/* Prints a property of the data set, unless it is "". */
static void print_line(const char *what, const char *text) {
    OWNED char *clean = text_clean(text);
    if (*clean) printf("  %-10s %s\n", what, clean);
}

/* Prints the axes that have a name or dimension scales: "0 (time), 2". */
static void print_axes(const struct input_candidate *candidate) {
    OWNED char *text = must_strdup("");
    for (int axis = 0; axis < candidate->array.shape.rank; axis++) {
        const char *name = candidate->entry->axes[axis];
        if (candidate->array.axes[axis].input != &candidate->array && !name) continue;
        must_append(&text, name ? "%s%d (%s)" : "%s%d", *text ? ", " : "", axis, name);
    }
    print_line("named axes", text);
}

/* Prints the attributes that describe a data set's numbers, and how a job decodes the numbers. */
static void print_values(const struct listing *listing, const struct input_candidate *candidate) {
    h5cf_list(listing->path, candidate->entry->name, print_line);
    if (candidate->array.decoding) {
        OWNED char *how = decoding_text(candidate->array.decoding);
        OWNED char *text = must_printf("%s; as %s", how, dtype_name(candidate->array.dtype));
        print_line("decoded", text);
    }
    if (candidate->array.remark) print_line("remark", candidate->array.remark);
}

void inspect_print_one(struct listing *listing) {
    const struct input_candidate *candidate = &listing->candidates[0];
    struct h5_entry *entry = candidate->entry;
    char memory[32], disk[32], time[32];
    OWNED char *name = must_printf("%s in %s", entry->name, listing->path);
    OWNED char *clean = text_clean(name);
    h5_list_axes(listing->path, &listing->list, &entry, 1);
    printf("%s\n", clean);
    print_line("type", entry->type);
    print_line("shape", entry->shape);
    print_line("layout", entry->layout);
    print_line("filters", entry->filters);
    print_line("use", candidate_use(entry));
    if (entry->bytes > 0) print_line("in memory", size_text(entry->bytes, memory));
    if (entry->stored > 0) print_line("on disk", size_text(entry->stored, disk));
    if (candidate->unusable.status) {
        OWNED char *why = candidate_reason(listing, candidate, false);
        print_line(candidate->by_field ? "by field" : "no input", why);
    } else {
        print_line("units", candidate->array.units ? candidate->array.units : "");
        print_line("long_name", candidate->array.long_name ? candidate->array.long_name : "");
        print_values(listing, candidate);
        print_axes(candidate);
        printf("  %-10s %s, about %.1f GB/s: %s\n", "reading",
               candidate->array.direct ? "on all cores" : "by HDF5, on one core", candidate->bytes_per_s / 1e9,
               duration_text(candidate_bytes(candidate) / candidate->bytes_per_s, time));
    }
    print_remarks(listing);
}
