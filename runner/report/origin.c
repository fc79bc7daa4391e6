/* origin.c - where the results come from: the jobs, the machines, the inputs. */
#include "../base/fail.h"
#include "../base/text.h"
#include "../storage/untrusted/fence.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 200, MOST_NUMBERS = 8 };

/* ---- attributes, whatever their names ---- */

struct attributes {
    struct attribute {
        char *name, *value; /* as it is shown */
    } * all;
    int count;
};

static void add(struct attributes *attributes, const char *name, const char *value) {
    attributes->all = must_realloc(attributes->all, (size_t)(attributes->count + 1) * sizeof *attributes->all);
    attributes->all[attributes->count++] = (struct attribute){must_strdup(name), must_strdup(value)};
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

/* "512 x 512", "62.5 GiB". NULL: they are none, or too many. The caller frees. */
static char *numbers_value(hid_t attribute, const char *name, hssize_t count) {
    double numbers[MOST_NUMBERS];
    char *value, text[32];
    size_t length, ending = strlen(name) < 6 ? 0 : strlen(name) - 6;
    if (count < 1 || count > MOST_NUMBERS || H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers) < 0) return NULL;
    FILE *to = must_stream(&value, &length);
    for (hssize_t i = 0; i < count; i++)
        if (strcmp(name + ending, "_bytes") == 0)
            fputs(size_text(numbers[i], text), to);
        else
            fprintf(to, isnan(numbers[i]) ? "%sunknown" : "%s%.9g", i ? " x " : "", numbers[i]);
    fclose(to);
    return value;
}

static herr_t take_attribute(hid_t object, const char *name, const H5A_info_t *about, void *to) {
    (void)about;
    char *value = h5_get_text(object, name);
    if (!value) {
        hid_t attribute = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attribute);
        hid_t space = H5Aget_space(attribute);
        if (H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_FLOAT)
            value = numbers_value(attribute, name, H5Sget_simple_extent_npoints(space));
        H5Sclose(space);
        H5Tclose(type);
        H5Aclose(attribute);
    }
    if (value) add(to, name, value);
    free(value);
    return 0;
}

static void read_attributes(const struct results_file *file, const char *path, struct attributes *attributes) {
    FENCE(file->path);
    hid_t object = file->id < 0 ? H5I_INVALID_HID : H5Oopen(file->id, path, H5P_DEFAULT);
    if (object < 0) return;
    if (H5Aiterate2(object, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, take_attribute, attributes) < 0)
        H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, take_attribute, attributes); /* of a copy by others */
    H5Oclose(object);
}

/* ---- a row for each fact, a column for each file ---- */

static void write_fact(const struct report *report, const char *name, const struct attributes *of, FILE *to) {
    int count = report->file_count;
    const char *first = find(&of[0], name);
    bool differs = false;
    html(to, "<tr><th scope=\"row\">%s</th>", name);
    for (int i = 0; i < count; i++) {
        const char *value = find(&of[i], name);
        differs |= !value || !first ? value != first : strcmp(value, first) != 0;
        html_cell(to, "", report->letter[i], value ? value : "", NAN);
    }
    if (count > 1) html_cell(to, "", "", differs ? "differs" : "", NAN);
    fputs("</tr>\n", to);
}

static void write_facts(const struct report *report, struct attributes *of, const char *label, FILE *to) {
    int count = report->file_count;
    struct attributes names = {0};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < of[i].count; k++)
            if (!find(&names, of[i].all[k].name)) add(&names, of[i].all[k].name, "");
    if (names.count > 0) {
        html_table(to, "facts", label, "");
        html_heading(to, "", label);
        for (int i = 0; i < count; i++) html_heading(to, "", count > 1 ? report->letter[i] : "Value");
        if (count > 1) html_heading(to, "", "Files");
        html_body(to);
        for (int i = 0; i < names.count; i++) write_fact(report, names.all[i].name, of, to);
        html_table_end(to);
    }
    free_attributes(&names);
    for (int i = 0; i < count; i++) free_attributes(&of[i]);
}

/* "shape 1797 x 64, dtype float32, file digits.h5, ...": all that is recorded of an input. The caller frees. */
static char *describe_input(const struct results_file *file, const char *path) {
    struct attributes input = {0};
    char *text;
    size_t length;
    FILE *to = must_stream(&text, &length);
    read_attributes(file, path, &input);
    for (int i = 0; i < input.count; i++) fprintf(to, "%s%s %s", i ? ", " : "", input.all[i].name, input.all[i].value);
    fclose(to);
    free_attributes(&input);
    return text;
}

enum status report_facts(const struct report *report, FILE *to, struct error *error) {
    struct attributes *of = must_malloc((size_t)report->file_count * sizeof *of);
    int all = 0;
    (void)error;
    for (int f = 0; f < report->file_count; f++) {
        of[f] = (struct attributes){0};
        read_attributes(report->files[f], "/environment", &of[f]);
        read_attributes(report->files[f], "/", &of[f]);
    }
    write_facts(report, of, "Environment", to);
    for (int f = 0; f < report->file_count; f++) {
        char **paths;
        int count = results_file_inputs(report->files[f], &paths);
        of[f] = (struct attributes){0};
        for (int i = 0; i < count; i++) {
            char *text = all++ < MOST_INPUTS ? describe_input(report->files[f], paths[i]) : NULL;
            if (text) add(&of[f], paths[i] + strlen("/inputs/"), text);
            free(text);
            free(paths[i]);
        }
        free(paths);
    }
    write_facts(report, of, "Inputs", to);
    if (all > MOST_INPUTS) fprintf(to, "<p>%d of %d inputs are shown.</p>\n", (int)MOST_INPUTS, all);
    free(of);
    return STATUS_OK;
}

/* ---- the jobs ---- */

enum status report_jobs(const struct report *report, FILE *to, struct error *error) {
    char **texts = must_malloc((size_t)report->file_count * sizeof *texts);
    (void)error;
    for (int i = 0; i < report->file_count; i++) {
        char *path = results_file_text(report->files[i], "/job", "path");
        const char *letter = report->letter[i];
        int same = 0;
        texts[i] = results_file_job(report->files[i], false);
        while (same < i && !(texts[i] && texts[same] && strcmp(texts[same], texts[i]) == 0)) same++;
        if (texts[i] && same < i)
            html(to, "<p>%s: the same job as %s.</p>\n", letter, report->letter[same]);
        else if (texts[i])
            html(to,
                 "<h3>%s%s%s</h3>\n<pre class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Text of the job "
                 "file\"><code>%s</code></pre>\n",
                 letter, *letter ? ": " : "", path && *path ? path : "the job file", texts[i]);
        free(path);
    }
    for (int i = 0; i < report->file_count; i++) free(texts[i]);
    free(texts);
    return STATUS_OK;
}
