/* inspect_table.c - the data sets of a file on one screen: those that are alike, and those that no job reads, take a
 * line together. */
#include "../base/table.h"
#include "../base/text.h"
#include "../storage/h5/h5.h"
#include "inspect.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 40,         /* data sets of the table, at most */
    ALIKE_SHOWN = 2,   /* of those that are alike */
    LINES = 6,         /* about groups of one kind, at most */
    FEW_BYTES = 4096,  /* of a chunk that is slow to read ... */
    MANY_CHUNKS = 1000 /* ... where there are so many */
};

/* ---- what is alike ----------------------------------------------------------------------------------------------- */

static int count_listed(const struct view *view) {
    int count = 0;
    for (int i = 0; i < view->list.count; i++) count += !view->of[i].hidden;
    return count;
}

enum likeness { SAME_BUT_NUMBERS, SAME_BUT_GROUP, SAME_BUT_NAME, LIKENESSES };

/* What data sets that are alike have in common: their names but for what may differ, types and layouts. */
static char *likeness_of(const struct h5_entry *entry, enum likeness likeness) {
    char *name = must_strdup(entry->name);
    if (likeness == SAME_BUT_NUMBERS) {
        char *to = name;
        for (const char *c = name; *c; c++)
            if (!isdigit((unsigned char)*c))
                *to++ = *c;
            else if (to == name || to[-1] != '0')
                *to++ = '0';
        *to = '\0';
    } else {
        char *slash = strrchr(name, '/'), *last = must_strdup(slash);
        *slash = '\0';
        char *outer = strrchr(name, '/');
        if (likeness == SAME_BUT_NAME) /* its shape instead */
            last[1] = '\0';
        else if (outer)
            *outer = '\0';
        char *key = must_printf("%s%s%s", name, last, likeness == SAME_BUT_NAME ? entry->shape : "");
        free(last);
        free(name);
        name = key;
    }
    char *key = must_printf("%s %s %d %.6s %s", name, entry->type, entry->rank, entry->layout, entry->filters);
    free(name);
    return key;
}

struct like {
    char *key;
    int at;
};

static int compare_likes(const void *one, const void *other) {
    const struct like *a = one, *b = other;
    int order = strcmp(a->key, b->key);
    return order ? order : a->at - b->at;
}

static void hide_alike(struct view *view, enum likeness likeness) {
    struct like *likes = must_malloc((unsigned long)view->list.count * sizeof *likes + 1);
    int count = 0;
    for (int i = 0; i < view->list.count; i++)
        if (!view->of[i].hidden) likes[count++] = (struct like){likeness_of(view->of[i].entry, likeness), i};
    qsort(likes, (size_t)count, sizeof *likes, compare_likes);
    for (int i = 0, end; i < count; i = end) {
        for (end = i; end < count && strcmp(likes[i].key, likes[end].key) == 0;) end++;
        if (end - i <= 2 * ALIKE_SHOWN) continue;
        struct candidate *last_shown = &view->of[likes[i + ALIKE_SHOWN - 1].at];
        int hidden = 0;
        for (int j = i; j < end; j++) { /* some stand for others already */
            struct candidate *it = &view->of[likes[j].at];
            it->hidden = j >= i + ALIKE_SHOWN;
            if (it->hidden) it->like = last_shown;
            hidden += it->alike + it->hidden;
            it->alike = 0;
        }
        last_shown->alike = hidden;
        last_shown->last_alike = view->of[likes[end - 1].at].entry->name;
    }
    for (int i = 0; i < count; i++) free(likes[i].key);
    free(likes);
}

int inspect_compare(const void *one, const void *other) {
    const struct candidate *const *a = one, *const *b = other;
    if ((*a)->unusable.status != (*b)->unusable.status) return (*a)->unusable.status ? 1 : -1;
    if ((*a)->entry->kind != (*b)->entry->kind) return (*a)->entry->kind < (*b)->entry->kind ? -1 : 1;
    double less = inspect_bytes(*a) - inspect_bytes(*b);
    return less > 0 ? -1 : less < 0 ? 1 : strcmp((*a)->entry->name, (*b)->entry->name);
}

void inspect_fold(struct view *view) {
    int count = count_listed(view);
    for (enum likeness likeness = 0; likeness < LIKENESSES && count > ROWS; likeness++) {
        hide_alike(view, likeness);
        count = count_listed(view);
    }
    if (count <= ROWS) return;
    struct candidate **listed = must_malloc((unsigned long)count * sizeof *listed);
    count = 0;
    for (int i = 0; i < view->list.count; i++)
        if (!view->of[i].hidden) listed[count++] = &view->of[i];
    qsort(listed, (size_t)count, sizeof *listed, inspect_compare);
    for (int i = ROWS; i < count; i++) {
        listed[i]->hidden = true;
        view->left_out += 1 + listed[i]->alike;
        listed[i]->alike = 0;
    }
    free(listed);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { NAME, SHAPE, AXES, TYPE, USE, LAYOUT, FILTERS, MEMORY, DISK, INPUT, COLUMNS };
static const struct table_column columns[COLUMNS] = {
    [NAME] = {.name = "data set"},
    [SHAPE] = {.name = "shape"},
    [AXES] = {.name = "axes", .priority = 5},
    [TYPE] = {.name = "type"},
    [USE] = {.name = "is", .priority = 6},
    [LAYOUT] = {.name = "layout", .priority = 2},
    [FILTERS] = {.name = "filters", .priority = 3},
    [MEMORY] = {.name = "in memory", .right = true, .priority = 1},
    [DISK] = {.name = "on disk", .right = true, .priority = 4},
    [INPUT] = {.name = "as an input"},
};

const char *inspect_use(const struct h5_entry *entry) {
    if (entry->kind >= H5_NO_INPUT) return ""; /* which another column says */
    return entry->marks & H5_MARK_LOGICAL ? "logical" : h5_kind_name(entry->kind, 1);
}

/* "time, lat, lon"; the caller frees. */
static char *axes_text(const struct h5_entry *entry) {
    char *text = must_strdup("");
    bool any = false;
    for (int axis = 0; axis < entry->rank && axis < MAX_RANK; axis++) {
        char *longer = must_printf("%s%s%.60s", text, axis ? ", " : "", entry->axes[axis] ? entry->axes[axis] : "-");
        free(text);
        text = longer;
        any |= entry->axes[axis] != NULL;
    }
    if (!any) *text = '\0';
    return text;
}

static void add_row(struct table *table, const struct view *view, const struct candidate *it) {
    const struct h5_entry *entry = it->entry;
    char text[32], *axes = axes_text(entry);
    table_row(table);
    table_cell(table, NAME, "%s", entry->name);
    table_cell(table, SHAPE, "%s", entry->shape);
    table_cell(table, AXES, "%s", axes);
    table_cell(table, TYPE, "%s", entry->type);
    table_cell(table, USE, "%s", inspect_use(entry));
    table_cell(table, LAYOUT, "%s", entry->layout);
    table_cell(table, FILTERS, "%s", entry->filters);
    if (entry->bytes > 0) table_cell(table, MEMORY, "%s", size_text(entry->bytes, text));
    if (entry->stored > 0) table_cell(table, DISK, "%s", size_text(entry->stored, text));
    if (entry->same_as) {
        table_cell(table, INPUT, "the same as %s", entry->same_as);
    } else if (entry->kind >= H5_NO_INPUT) {
        table_cell(table, INPUT, "no: %s", h5_kind_name(entry->kind, 1));
    } else if (!it->unusable.status) {
        table_cell(table, INPUT, "%.1f GB/s", it->bytes_per_s / 1e9);
    } else {
        char *why = inspect_reason(view, it, true);
        table_cell(table, INPUT, "no: %s", why);
        free(why);
    }
    free(axes);
}

static void print_rows(struct view *view) {
    struct h5_entry **which = must_malloc((unsigned long)view->list.count * sizeof *which + 1);
    int count = 0;
    for (int i = 0; i < view->list.count; i++)
        if (!view->of[i].hidden) which[count++] = view->of[i].entry;
    h5_list_axes(view->path, &view->list, which, count);
    free(which);
    struct table *table = table_create(columns, COLUMNS);
    printf("\n");
    for (int i = 0; i < view->list.count; i++)
        if (!view->of[i].hidden) add_row(table, view, &view->of[i]);
    table_print(table, table_terminal_width(), NULL, stdout);
    table_free(table);
}

/* ---- what is not in the table ------------------------------------------------------------------------------------ */

/* The group whose data sets of this kind take one line: that of an index, and of all that cells refer to, as a whole.
 * The caller frees. */
static char *group_of(const struct h5_entry *entry) {
    const char *end = strrchr(entry->name, '/'), *index = strstr(entry->name, "/_i_");
    if (entry->kind == H5_SEARCH_INDEX && index) end = index + 1 + strcspn(index + 1, "/");
    if (entry->kind == H5_REFERENCED) end = entry->name + 1 + strcspn(entry->name + 1, "/");
    return must_printf("%.*s", end == entry->name ? 1 : (int)(end - entry->name), entry->name);
}

static int compare_texts(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void print_kind(const struct view *view, enum h5_kind kind) {
    char **groups = must_malloc((unsigned long)view->list.count * sizeof *groups + 1);
    int count = 0, lines = 0;
    for (int i = 0; i < view->list.count; i++)
        if (view->list.entries[i].kind == kind) groups[count++] = group_of(&view->list.entries[i]);
    qsort(groups, (size_t)count, sizeof *groups, compare_texts);
    for (int i = 0; i < count; i++) lines += i == 0 || strcmp(groups[i], groups[i - 1]) != 0;
    if (lines > LINES)
        text_print(stdout, "  %d %s in %d groups, such as %s\n", count, h5_kind_name(kind, count), lines, groups[0]);
    for (int i = 0, end; i < count && lines <= LINES; i = end) {
        for (end = i; end < count && strcmp(groups[i], groups[end]) == 0;) end++;
        text_print(stdout, "  %s: %d %s\n", groups[i], end - i, h5_kind_name(kind, end - i));
    }
    for (int i = 0; i < count; i++) free(groups[i]);
    free(groups);
}

static void print_sparse(const struct view *view) {
    int count = 0;
    for (int i = 0; i < view->list.count; i++)
        if (view->list.entries[i].note && ++count <= LINES)
            text_print(stdout, "  %s: no job reads it; make a dense copy\n", view->list.entries[i].note);
    if (count > LINES) printf("  %d sparse matrices more\n", count - LINES);
}

static void print_aliases(const struct view *view) {
    int count = 0;
    for (int i = 0; i < view->list.count; i++) {
        const struct h5_entry *entry = &view->list.entries[i];
        if (entry->kind == H5_ALIAS && ++count <= LINES)
            text_print(stdout, "  %s is %s\n", entry->name, entry->same_as);
    }
    if (count > LINES) printf("  %d other names more\n", count - LINES);
}

static void print_alike(const struct view *view) {
    int lines = 0, more = 0;
    for (int i = 0; i < view->list.count; i++) {
        const struct candidate *it = &view->of[i];
        if (it->alike == 0) continue;
        if (++lines <= 2 * LINES)
            text_print(stdout, "  %d like %s, to %s\n", it->alike, it->entry->name, it->last_alike);
        else
            more += it->alike;
    }
    if (more) printf("  %d like others of the table\n", more);
    if (view->left_out) printf("  %d other data sets\n", view->left_out);
}

static void print_folded(const struct view *view) {
    int count = 0;
    for (int i = 0; i < view->list.count; i++) count += view->of[i].hidden;
    if (count == 0) return;
    printf("\nnot listed (--all lists them):\n");
    print_alike(view);
    for (enum h5_kind kind = H5_NO_INPUT; kind < H5_KINDS; kind++) {
        if (kind == H5_SPARSE)
            print_sparse(view);
        else if (kind == H5_ALIAS)
            print_aliases(view);
        else
            print_kind(view, kind);
    }
}

/* ---- remarks ----------------------------------------------------------------------------------------------------- */

/* "12,345,678"; into `text`, which is returned. */
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

static void print_tiny_chunks(const struct view *view) {
    int count = 0;
    for (int i = 0; i < view->list.count; i++) {
        const struct candidate *it = &view->of[i];
        const struct h5_entry *entry = it->entry;
        if (it->hidden || it->unusable.status || entry->chunks < MANY_CHUNKS || entry->chunk_bytes >= FEW_BYTES)
            continue;
        if (++count > LINES / 2) continue;
        char sizes[SHAPE_TEXT], chunks[48], bytes[48];
        struct shape chunk = h5_chunk(it->array.dtype, &it->array.view.source, &(struct h5_layout){.shuffle = true});
        printf("\n");
        text_print(stdout, "%s: %s chunks of %s bytes: slow to read; h5repack -l %s:CHUNK=%s %s COPY.h5\n", entry->name,
                   thousands(entry->chunks, chunks), thousands(entry->chunk_bytes, bytes), entry->name + 1,
                   shape_format(&chunk, sizes), view->path);
    }
    if (count > LINES / 2) printf("%d data sets more have chunks as small\n", count - LINES / 2);
}

static void print_matlab(const struct view *view) {
    const struct h5_entry *largest = NULL;
    for (int i = 0; i < view->list.count; i++) {
        const struct candidate *it = &view->of[i];
        if (!it->hidden && it->entry->marks & H5_MARK_MATLAB && it->entry->rank > 1 &&
            (!largest || it->entry->elements > largest->elements))
            largest = it->entry;
    }
    if (!largest) return;
    printf("\n");
    text_print(stdout, "MATLAB wrote %s: its axes are in reverse order here, and in MATLAB %s is ",
               view->list.count == 1 ? "it" : "this file", largest->name);
    for (const char *end = largest->shape + strlen(largest->shape), *at = end; at > largest->shape; end = at - 1) {
        for (at = end; at > largest->shape && at[-1] != 'x';) at--;
        printf("%s%.*s", end[0] ? "x" : "", (int)(end - at), at);
    }
    printf("\n");
}

void inspect_print_remarks(const struct view *view) {
    print_matlab(view);
    print_tiny_chunks(view);
}

static void print_outside(const struct view *view) {
    if (view->list.outside == 0) return;
    char *name = text_clean(view->list.first_outside);
    if (view->list.outside == 1)
        printf("\na link that leads out of the file's folder is not followed: %s\n", name);
    else
        printf("\n%d links that lead out of the file's folder are not followed, such as %s\n", view->list.outside,
               name);
    free(name);
}

static void print_broken(const struct view *view) {
    if (view->list.broken == 0) return;
    char *name = text_clean(view->list.first_broken);
    if (view->list.broken == 1)
        printf("\na link leads nowhere: %s\n", name);
    else
        printf("\n%d links lead nowhere, such as %s\n", view->list.broken, name);
    free(name);
}

void inspect_print_table(struct view *view) {
    double bytes = 0;
    int count = 0;
    char text[32];
    for (int i = 0; i < view->list.count; i++) {
        const struct h5_entry *entry = &view->list.entries[i];
        bytes += entry->kind == H5_ALIAS ? 0 : entry->bytes;
        count += entry->kind != H5_ALIAS;
    }
    char *path = text_clean(view->path);
    printf("%s: %d data set%s, %s in memory; %d can be inputs of a job\n", path, count, count == 1 ? "" : "s",
           size_text(bytes, text), view->usable);
    free(path);
    if (view->usable == 0 && count > 0) {
        char *reasons = inspect_reasons(view);
        printf("(%s)\n", reasons);
        free(reasons);
    }
    if (count_listed(view) > 0) print_rows(view);
    print_folded(view);
    inspect_print_remarks(view);
    print_broken(view);
    print_outside(view);
}
