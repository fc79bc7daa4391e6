/* inspect_listing.c - finds the data sets of a file, describes them as inputs of a job, and hides those that do not fit
 * on a screen. Two of several similar data sets get rows; the second row represents the hidden ones. */
#include "inspect.h"

#include "../stream/device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ROWS = 40,     /* most rows of the table */
    ROWS_OF_ALIKE = 2, /* rows for data sets that are alike */
    MAX_REASONS = 12   /* most reasons that listing_reasons names */
};

/* ---- candidates -------------------------------------------------------------------------------------------------- */

double candidate_bytes(const struct input_candidate *candidate) {
    if (!candidate->described || candidate->unusable.status) return candidate->entry->bytes;
    return (double)shape_elements(&candidate->array.shape) * (double)dtype_size(candidate->array.dtype);
}

int candidate_compare(const void *one, const void *other) {
    const struct input_candidate *const *a = one, *const *b = other;
    if ((*a)->unusable.status != (*b)->unusable.status) return (*a)->unusable.status ? 1 : -1;
    if ((*a)->entry->kind != (*b)->entry->kind) return (*a)->entry->kind < (*b)->entry->kind ? -1 : 1;
    double less = candidate_bytes(*a) - candidate_bytes(*b);
    return less > 0 ? -1 : less < 0 ? 1 : strcmp((*a)->entry->name, (*b)->entry->name);
}

const char *candidate_use(const struct h5_entry *entry) {
    if (entry->kind >= H5_NO_INPUT) return ""; /* another column names the kind */
    return entry->marks & H5_MARK_LOGICAL ? "logical" : h5_kind_name(entry->kind, 1);
}

char *candidate_reason(const struct listing *listing, const struct input_candidate *candidate, bool in_short) {
    OWNED char *known = must_printf("%s: '%s' ", listing->path, candidate->entry->name);
    size_t length = strlen(known);
    const char *text = candidate->unusable.text + (strncmp(candidate->unusable.text, known, length) == 0 ? length : 0);
    return must_printf("%.*s", (int)strcspn(text, in_short ? ";" : ""), text);
}

/* ---- data sets that are alike ------------------------------------------------------------------------------------ */

static int count_listed(const struct listing *listing) {
    int count = 0;
    for (int i = 0; i < listing->list.count; i++) count += !listing->candidates[i].hidden;
    return count;
}

/* What may differ in the names of data sets that are alike: numbers; the last group; the part after the last '/'. */
enum likeness { SAME_BUT_NUMBERS, SAME_BUT_GROUP, SAME_BUT_NAME, LIKENESSES };

/* The key that data sets which are alike have in common: the part of their names that must agree, type, rank, layout
 * and filters. The caller frees. */
static char *likeness_key(const struct h5_entry *entry, enum likeness likeness) {
    OWNED char *name = must_strdup(entry->name);
    if (likeness == SAME_BUT_NUMBERS) {
        char *to = name;
        for (const char *c = name; *c; c++)
            if (!isdigit((unsigned char)*c))
                *to++ = *c;
            else if (to == name || to[-1] != '0')
                *to++ = '0'; /* for all digits of a number */
        *to = '\0';
    } else {
        char *slash = strrchr(name, '/');
        OWNED char *last = must_strdup(slash);
        *slash = '\0';
        char *outer = strrchr(name, '/');
        if (likeness == SAME_BUT_NAME) /* the shape must agree instead */
            last[1] = '\0';
        else if (outer)
            *outer = '\0';
        char *key = must_printf("%s%s%s", name, last, likeness == SAME_BUT_NAME ? entry->shape : "");
        free(name);
        name = key;
    }
    /* 6 letters of the layout: "chunks" without their sizes. */
    return must_printf("%s %s %d %.6s %s", name, entry->type, entry->rank, entry->layout, entry->filters);
}

/* A candidate by its number in the listing, with its key. */
struct like {
    char *key;
    int number;
};

static int compare_likes(const void *one, const void *other) {
    const struct like *a = one, *b = other;
    int order = strcmp(a->key, b->key);
    return order ? order : a->number - b->number;
}

/* Hides all but the first ROWS_OF_ALIKE of the data sets that are alike, if that hides more than it shows. */
static void hide_alike(struct listing *listing, enum likeness likeness) {
    OWNED struct like *likes = must_malloc((unsigned long)listing->list.count * sizeof *likes + 1);
    int count = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (!listing->candidates[i].hidden)
            likes[count++] = (struct like){likeness_key(listing->candidates[i].entry, likeness), i};
    qsort(likes, (size_t)count, sizeof *likes, compare_likes);
    for (int i = 0, end; i < count; i = end) { /* each group of equal keys */
        for (end = i; end < count && strcmp(likes[i].key, likes[end].key) == 0;) end++;
        if (end - i <= 2 * ROWS_OF_ALIKE) continue;
        struct input_candidate *last_shown = &listing->candidates[likes[i + ROWS_OF_ALIKE - 1].number];
        int hidden = 0;
        for (int j = i; j < end; j++) { /* a candidate may already represent hidden ones */
            struct input_candidate *candidate = &listing->candidates[likes[j].number];
            candidate->hidden = j >= i + ROWS_OF_ALIKE;
            if (candidate->hidden) candidate->like = last_shown;
            hidden += candidate->alike + candidate->hidden;
            candidate->alike = 0;
        }
        last_shown->alike = hidden;
        last_shown->last_alike = listing->candidates[likes[end - 1].number].entry->name;
    }
    for (int i = 0; i < count; i++) free(likes[i].key);
}

/* Hides data sets that are alike, and then the smallest, until a screen holds the rest. */
static void hide_to_fit(struct listing *listing) {
    int count = count_listed(listing);
    for (enum likeness likeness = 0; likeness < LIKENESSES && count > MAX_ROWS; likeness++) {
        hide_alike(listing, likeness);
        count = count_listed(listing);
    }
    if (count <= MAX_ROWS) return;
    OWNED struct input_candidate **listed = must_malloc((unsigned long)count * sizeof *listed);
    count = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (!listing->candidates[i].hidden) listed[count++] = &listing->candidates[i];
    qsort(listed, (size_t)count, sizeof *listed, candidate_compare);
    for (int i = MAX_ROWS; i < count; i++) {
        listed[i]->hidden = true;
        listing->left_out += 1 + listed[i]->alike;
        listed[i]->alike = 0;
    }
}

/* ---- the listing ------------------------------------------------------------------------------------------------- */

enum status candidate_describe(struct input_candidate *candidate) {
    TRY(array_describe(&candidate->source, &candidate->array, &candidate->unusable));
    TRY(array_check_mostly_empty(&candidate->array, &candidate->unusable));
    return array_check_sources(&candidate->array, &candidate->unusable);
}

/* Describes a data set as a whole and, if that fails, tries its first field. */
static void describe_candidate(struct listing *listing, struct input_candidate *candidate,
                               const struct device_facts *cpu) {
    candidate->described = true;
    candidate->source =
        (struct job_input){.name = candidate->entry->name, .file = listing->path, .dataset = candidate->entry->name};
    if (!candidate_describe(candidate)) {
        candidate->bytes_per_s = plan_read_rate(&candidate->array, cpu);
    } else if (candidate->entry->fields.count > 0) {
        struct input_candidate field = {.entry = candidate->entry, .source = candidate->source};
        field.source.field = candidate->entry->fields.items[0];
        candidate->by_field = !candidate_describe(&field);
        array_free(&field.array);
    }
}

/* The candidate itself if it is described, else the described one that represents it. */
static const struct input_candidate *described_for(const struct input_candidate *candidate) {
    while (!candidate->described && candidate->like) candidate = candidate->like;
    return candidate;
}

/* Are the data set's elements in other files? */
static bool is_elsewhere(const struct h5_entry *entry) {
    return strcmp(entry->layout, "virtual") == 0 || strcmp(entry->layout, "external") == 0;
}

enum status listing_make(const char *path, const char *object, bool all, struct listing *listing, struct error *error) {
    struct device_facts cpu;
    *listing = (struct listing){.path = must_strdup(path)};
    TRY(h5_list(path, object, &listing->list, error));
    device_cpu_facts(&cpu);
    bool alone = listing->list.count == 1;
    all |= alone && strcmp(object, "/") != 0; /* the user named it */
    listing->candidates = must_malloc((unsigned long)listing->list.count * sizeof *listing->candidates + 1);
    for (int i = 0; i < listing->list.count; i++) {
        struct h5_entry *entry = &listing->list.entries[i];
        listing->candidates[i] = (struct input_candidate){.entry = entry, .hidden = entry->kind >= H5_NO_INPUT && !all};
    }
    if (!all) hide_to_fit(listing);
    for (int i = 0; i < listing->list.count; i++) {
        struct input_candidate *candidate = &listing->candidates[i];
        /* A hidden candidate that another represents is described only if its files may be missing. */
        bool needed = candidate->entry->kind < H5_NO_INPUT && (!candidate->like || is_elsewhere(candidate->entry));
        if (alone || needed || !candidate->hidden) describe_candidate(listing, candidate, &cpu);
    }
    for (int i = 0; i < listing->list.count; i++) {
        const struct input_candidate *candidate = described_for(&listing->candidates[i]);
        listing->usable += candidate->entry->kind < H5_NO_INPUT && (!candidate->unusable.status || candidate->by_field);
    }
    return STATUS_OK;
}

void listing_free(struct listing *listing) {
    for (int i = 0; listing->candidates && i < listing->list.count; i++) {
        array_free(&listing->candidates[i].array);
        free(listing->candidates[i].pattern);
    }
    free(listing->candidates);
    h5_list_free(&listing->list);
    free(listing->path);
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

/* The reason why `count` data sets cannot be inputs, as a noun: "scalar", "strings". The caller frees. */
static char *reason_noun(const struct input_candidate *candidate, int count) {
    const struct h5_entry *entry = candidate->entry;
    if (entry->kind >= H5_NO_INPUT) return must_strdup(h5_kind_name(entry->kind, count));
    if (strstr(entry->filters, "(not installed)"))
        return must_strdup(count == 1 ? "missing filter" : "missing filters");
    if (!strstr(candidate->unusable.text, "' holds "))
        return must_strdup(count == 1 ? "other reason" : "other reasons");
    int length = (int)strcspn(entry->type, ": "); /* "table: x, y", "enumeration of int8"; "complex" has no plural */
    return must_printf("%.*s%s", length, entry->type,
                       count > 1 && length > 0 && entry->type[length - 1] != 'x' ? "s" : "");
}

char *listing_reasons(const struct listing *listing) {
    struct {
        const struct input_candidate *candidate;
        char *noun;
        int count;
    } found[MAX_REASONS];
    int reasons = 0;
    for (int i = 0; i < listing->list.count; i++) {
        const struct input_candidate *candidate = described_for(&listing->candidates[i]);
        if (candidate->described && !candidate->unusable.status) continue;
        char *noun = reason_noun(candidate, 1);
        int at = 0;
        while (at < reasons && strcmp(found[at].noun, noun) != 0) at++;
        if (at == MAX_REASONS) at--; /* the last reason counts the rest too */
        if (at == reasons) {
            found[reasons].candidate = candidate;
            found[reasons].count = 0;
            found[reasons++].noun = noun;
        } else {
            free(noun);
        }
        found[at].count++;
    }
    char *text;
    FILE *to = must_stream(&text);
    for (int i = 0; i < reasons; i++) {
        OWNED char *noun = reason_noun(found[i].candidate, found[i].count);
        fprintf(to, "%s%d %s", i ? ", " : "", found[i].count, noun);
        free(found[i].noun);
    }
    fclose(to);
    return text;
}
