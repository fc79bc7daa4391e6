/* origin.c - writes where the results come from: the jobs, the machines, the inputs. */
#include "../base/fail.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "../storage/h5/h5attribute.h"
#include "../storage/untrusted/fence.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LISTED_INPUTS = 200, MAX_NUMBERS = 8 };

/* ---- attributes, whatever their names ---- */

/* The attributes of an object in a file. */
struct attributes {
    struct attribute {
        char *name, *value; /* `value` is the shown text */
    } * all;
    int count;
};

static void add(struct attributes *attributes, const char *name, const char *value) {
    *APPEND(attributes->all, attributes->count) = (struct attribute){must_strdup(name), must_strdup(value)};
}

static void free_attributes(struct attributes *attributes) {
    for (int i = 0; i < attributes->count; i++) {
        free(attributes->all[i].name);
        free(attributes->all[i].value);
    }
    free(attributes->all);
}

static const char *find(const struct attributes *attributes, const char *name) {
    for (int i = 0; i < attributes->count; i++)
        if (strcmp(attributes->all[i].name, name) == 0) return attributes->all[i].value;
    return NULL;
}

/* The numbers of an attribute as text: "512 x 512", "62.5 GiB"; NULL: they cannot be read, or are too many. The caller
 * frees. */
static char *numbers_value(hid_t attribute, const char *name, hssize_t count) {
    double numbers[MAX_NUMBERS];
    OWNED char *value = must_strdup("");
    char text[32];
    size_t suffix = strlen(name) < 6 ? 0 : strlen(name) - 6;
    bool good = count >= 1 && count <= MAX_NUMBERS && H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers) >= 0;
    for (hssize_t i = 0; i < count && good; i++)
        if (strcmp(name + suffix, "_bytes") == 0)
            must_append(&value, "%s", size_text(numbers[i], text));
        else
            must_append(&value, isnan(numbers[i]) ? "%sunknown" : "%s%.9g", i ? " x " : "", numbers[i]);
    return good ? disown(&value) : NULL;
}

/* For H5Aiterate2: adds an attribute that is a text or a few numbers to the attributes at `to`. */
static herr_t add_attribute(hid_t object, const char *name, const H5A_info_t *about, void *to) {
    (void)about;
    OWNED char *value = h5_get_text(object, name);
    if (!value) {
        OWNED_ID hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
        OWNED_ID hid_t type = H5Aget_type(attribute);
        OWNED_ID hid_t space = H5Aget_space(attribute);
        if (H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_FLOAT)
            value = numbers_value(attribute, name, H5Sget_simple_extent_npoints(space));
    }
    if (value) add(to, name, value);
    return 0;
}

/* Adds the attributes of an object, in the order of their creation if the file has it. */
static void read_attributes(const struct results_file *file, const char *path, struct attributes *attributes) {
    FENCE(file->path);
    OWNED_ID hid_t object = file->id < 0 ? H5I_INVALID_HID : H5Oopen(file->id, path, H5P_DEFAULT);
    if (object < 0) return;
    if (H5Aiterate2(object, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, add_attribute, attributes) < 0)
        H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, add_attribute,
                    attributes); /* a copy by another program may lack the order of creation */
}

/* ---- a row for each fact, a column for each file ---- */

/* Writes the row of a fact; with several files also whether they differ in it. */
static void write_fact(const struct report *report, const char *name, const struct attributes *facts, FILE *to) {
    int count = report->file_count;
    const char *first = find(&facts[0], name);
    bool differs = false;
    html(to, "<tr><th scope=\"row\">%s</th>", name);
    for (int i = 0; i < count; i++) {
        const char *value = find(&facts[i], name);
        differs |= !value || !first ? value != first : strcmp(value, first) != 0;
        html_cell(to, "", report->files[i].letter, value ? value : "", NAN);
    }
    if (count > 1) html_cell(to, "", "", differs ? "differs" : "", NAN);
    fputs("</tr>\n", to);
}

/* Writes a table of facts: a row for each name, a column for each file. `facts` has the facts of each file; frees
 * them. */
static void write_facts(const struct report *report, struct attributes *facts, const char *label, FILE *to) {
    int count = report->file_count;
    struct attributes names = {0};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < facts[i].count; k++)
            if (!find(&names, facts[i].all[k].name)) add(&names, facts[i].all[k].name, "");
    if (names.count > 0) {
        html_table(to, "facts", label, "");
        html_heading(to, "", label);
        for (int i = 0; i < count; i++) html_heading(to, "", count > 1 ? report->files[i].letter : "Value");
        if (count > 1) html_heading(to, "", "Files");
        html_body(to);
        for (int i = 0; i < names.count; i++) write_fact(report, names.all[i].name, facts, to);
        html_table_end(to);
    }
    free_attributes(&names);
    for (int i = 0; i < count; i++) free_attributes(&facts[i]);
}

/* "shape 1797 x 64, dtype float32, file digits.h5, ...": all that is recorded of an input. The caller frees. */
static char *describe_input(const struct results_file *file, const char *path) {
    struct attributes input = {0};
    char *text = must_strdup("");
    read_attributes(file, path, &input);
    for (int i = 0; i < input.count; i++)
        must_append(&text, "%s%s %s", i ? ", " : "", input.all[i].name, input.all[i].value);
    free_attributes(&input);
    return text;
}

void report_facts(const struct report *report, FILE *to) {
    OWNED struct attributes *facts = must_malloc((size_t)report->file_count * sizeof *facts);
    int inputs = 0;
    for (int f = 0; f < report->file_count; f++) {
        facts[f] = (struct attributes){0};
        read_attributes(report->files[f].results, "/environment", &facts[f]);
        read_attributes(report->files[f].results, "/", &facts[f]);
    }
    write_facts(report, facts, "Environment", to);
    for (int f = 0; f < report->file_count; f++) {
        FREED_BY(texts_clear) struct texts paths = results_file_inputs(report->files[f].results);
        facts[f] = (struct attributes){0};
        for (int i = 0; i < paths.count; i++) {
            OWNED char *text =
                inputs++ < MAX_LISTED_INPUTS ? describe_input(report->files[f].results, paths.items[i]) : NULL;
            if (text) add(&facts[f], paths.items[i] + strlen("/inputs/"), text);
        }
    }
    write_facts(report, facts, "Inputs", to);
    if (inputs > MAX_LISTED_INPUTS) fprintf(to, "<p>%d of %d inputs are shown.</p>\n", (int)MAX_LISTED_INPUTS, inputs);
}

/* ---- the jobs ---- */

/* Writes each job's text once: for later files with an equal text, the letter of the first. */
void report_jobs(const struct report *report, FILE *to) {
    char **texts = must_malloc((size_t)report->file_count * sizeof *texts);
    for (int i = 0; i < report->file_count; i++) {
        OWNED char *path = results_file_text(report->files[i].results, "/job", "path");
        const char *letter = report->files[i].letter;
        int same = 0;
        texts[i] = results_file_job(report->files[i].results, false);
        while (same < i && !(texts[i] && texts[same] && strcmp(texts[same], texts[i]) == 0)) same++;
        if (texts[i] && same < i)
            html(to, "<p>%s: the same job as %s.</p>\n", letter, report->files[same].letter);
        else if (texts[i])
            html(to,
                 "<h3>%s%s%s</h3>\n<pre class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Text of the job "
                 "file\"><code>%s</code></pre>\n",
                 letter, *letter ? ": " : "", path && *path ? path : "the job file", texts[i]);
    }
    texts_free(texts, report->file_count);
}
