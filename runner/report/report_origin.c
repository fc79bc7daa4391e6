/* report_origin.c - where the results come from: the jobs, the machines, the inputs. */
#include "../base/fail.h"
#include "../base/text.h"
#include "../storage/h5/h5io.h"
#include "../storage/untrusted/fence.h"
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes, whatever their names ---- */

struct attribute {
    char *name, *value; /* as it is shown */
};
struct attributes {
    struct attribute *all;
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

static bool ends_in(const char *name, const char *tail) {
    size_t length = strlen(name), end = strlen(tail);
    return length > end && strcmp(name + length - end, tail) == 0;
}

/* A number with the unit that its attribute's name ends in. */
static char *number_value(const char *name, double number) {
    char text[NUMBER_BYTES];
    if (isnan(number)) return must_strdup("unknown");
    if (ends_in(name, "_bytes")) return must_strdup(size_text(number, text));
    plain_text(number, text);
    return must_printf("%s%s", text, ends_in(name, "_mhz") ? " MHz" : ends_in(name, "_w") ? " W" : "");
}

/* Several numbers, as of a shape: "512 x 512". NULL: they cannot be shown. */
static char *numbers_value(hid_t attribute, hssize_t count) {
    enum { MOST = 8 };
    double numbers[MOST];
    char *value = NULL;
    if (count < 1 || count > MOST || H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers) < 0) return NULL;
    for (hssize_t i = 0; i < count; i++) {
        char text[NUMBER_BYTES];
        char *longer = must_printf("%s%s%s", value ? value : "", value ? " x " : "", plain_text(numbers[i], text));
        free(value);
        value = longer;
    }
    return value;
}

static herr_t take_attribute(hid_t object, const char *name, const H5A_info_t *about, void *to) {
    (void)about;
    char *value = h5_get_text(object, name);
    if (!value) {
        hid_t attribute = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attribute);
        hid_t space = H5Aget_space(attribute);
        hssize_t count = H5Sget_simple_extent_npoints(space);
        double number;
        bool numeric = H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_FLOAT;
        if (numeric && count == 1 && H5Aread(attribute, H5T_NATIVE_DOUBLE, &number) >= 0)
            value = number_value(name, number);
        else if (numeric)
            value = numbers_value(attribute, count);
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

static const char *find(const struct attributes *attributes, const char *name) {
    for (int i = 0; i < attributes->count; i++)
        if (strcmp(attributes->all[i].name, name) == 0) return attributes->all[i].value;
    return NULL;
}

/* ---- the environment: a row for each fact, a column for each file ---- */

static void write_fact(const char *name, const struct attributes *of, int count, FILE *to) {
    const char *first = find(&of[0], name);
    bool differs = false;
    for (int i = 1; i < count; i++) {
        const char *value = find(&of[i], name);
        differs |= !value || !first ? value != first : strcmp(value, first) != 0;
    }
    char shown[128];
    snprintf(shown, sizeof shown, "%s", name);
    if (ends_in(shown, "_bytes") || ends_in(shown, "_mhz") || ends_in(shown, "_w")) *strrchr(shown, '_') = '\0';
    for (char *c = shown; *c; c++)
        if (*c == '_') *c = ' ';
    fputs("<tr><th scope=\"row\">", to);
    html_text(to, shown);
    fputs("</th>", to);
    for (int i = 0; i < count; i++) text_cell(to, find(&of[i], name) ? find(&of[i], name) : "");
    if (count > 1) text_cell(to, differs ? "differs" : "");
    fputs("</tr>\n", to);
}

void report_environment(const struct report *report, FILE *to) {
    int count = report->file_count;
    struct attributes *of = must_malloc((size_t)count * sizeof *of);
    struct attributes names = {0};
    for (int i = 0; i < count; i++) {
        of[i] = (struct attributes){0};
        read_attributes(report->files[i], "/environment", &of[i]);
        read_attributes(report->files[i], "/", &of[i]);
        for (int k = 0; k < of[i].count; k++)
            if (!find(&names, of[i].all[k].name)) add(&names, of[i].all[k].name, "");
    }
    if (names.count > 0) {
        table_begin(to, "facts", "Environment", "");
        fputs("<thead><tr>", to);
        heading_write(to, "Fact", false);
        for (int i = 0; i < count; i++) {
            char letter[8];
            heading_write(to, count > 1 ? file_letter(i, letter) : "Value", false);
        }
        if (count > 1) heading_write(to, "Files", false);
        fputs("</tr></thead>\n<tbody>\n", to);
        for (int i = 0; i < names.count; i++) write_fact(names.all[i].name, of, count, to);
        fputs("</tbody>\n", to);
        table_end(to);
    }
    free_attributes(&names);
    for (int i = 0; i < count; i++) free_attributes(&of[i]);
    free(of);
}

/* ---- the jobs ---- */

static void write_job(const struct report *report, int file, const char *text, FILE *to) {
    char letter[8];
    char *path = results_file_text(report->files[file], "/job", "path");
    fputs("<details open><summary>", to);
    if (report->file_count > 1) fprintf(to, "%s: ", file_letter(file, letter));
    html_text(to, path && path[0] ? path : "the job file");
    fputs("</summary>\n<pre class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Text of the job file\"><code>",
          to);
    html_text(to, text);
    fputs("</code></pre></details>\n", to);
    free(path);
}

void report_jobs(const struct report *report, FILE *to) {
    char **texts = must_malloc((size_t)report->file_count * sizeof *texts);
    for (int i = 0; i < report->file_count; i++) {
        char letter[8], other[8];
        texts[i] = results_file_job(report->files[i], false);
        int same = 0;
        while (same < i && !(texts[i] && texts[same] && strcmp(texts[same], texts[i]) == 0)) same++;
        if (texts[i] && same < i)
            fprintf(to, "<p>%s: the same job as %s.</p>\n", file_letter(i, letter), file_letter(same, other));
        else if (texts[i])
            write_job(report, i, texts[i], to);
    }
    for (int i = 0; i < report->file_count; i++) free(texts[i]);
    free(texts);
}

/* ---- the inputs ---- */

enum { MOST_INPUTS = 200 };

struct inputs {
    const struct report *report;
    int file, shown, count;
    FILE *to;
};

/* "generated: uniform, low 0, high 1, seed 7" or "file.h5: /x". The caller frees. */
static char *source_of(const struct attributes *input) {
    const char *file = find(input, "file"), *dataset = find(input, "dataset"), *rows = find(input, "rows");
    if (file) return must_printf("%s: %s%s%s", file, dataset ? dataset : "", rows ? ", rows " : "", rows ? rows : "");
    char *source = must_strdup("generated");
    for (int i = 0; i < input->count; i++) {
        const struct attribute *term = &input->all[i];
        if (strcmp(term->name, "shape") == 0 || strcmp(term->name, "dtype") == 0) continue;
        bool name_shown = strcmp(term->name, "generator") != 0 && strcmp(term->name, "distribution") != 0;
        char *longer =
            must_printf("%s, %s%s%s", source, name_shown ? term->name : "", name_shown ? " " : "", term->value);
        free(source);
        source = longer;
    }
    return source;
}

static void write_input(struct inputs *inputs, const char *path, const struct attributes *input) {
    char letter[8];
    if (inputs->shown++ == 0) {
        table_begin(inputs->to, "sortable", "Inputs", "Hash: xxh3 of the values, whatever their layout in the file.");
        fputs("<thead><tr>", inputs->to);
        if (inputs->report->file_count > 1) heading_write(inputs->to, "File", false);
        static const char *const headings[] = {"Input", "Shape", "Type", "From", "Hash"};
        for (int i = 0; i < 5; i++) heading_write(inputs->to, headings[i], false);
        fputs("</tr></thead>\n<tbody>\n", inputs->to);
    }
    char *source = source_of(input);
    const char *facts[] = {find(input, "shape"), find(input, "dtype"), source, find(input, "xxh3")};
    fputs("<tr>", inputs->to);
    if (inputs->report->file_count > 1) text_cell(inputs->to, file_letter(inputs->file, letter));
    fputs("<th scope=\"row\">", inputs->to);
    html_text(inputs->to, path);
    fputs("</th>", inputs->to);
    for (int i = 0; i < 4; i++) text_cell(inputs->to, facts[i] ? facts[i] : "");
    fputs("</tr>\n", inputs->to);
    free(source);
}

void report_inputs(const struct report *report, FILE *to) {
    struct inputs inputs = {.report = report, .to = to};
    for (; inputs.file < report->file_count; inputs.file++) {
        const struct results_file *file = report->files[inputs.file];
        char **paths;
        int count = results_file_inputs(file, &paths);
        for (int i = 0; i < count; i++) {
            struct attributes attributes = {0};
            if (inputs.count++ < MOST_INPUTS) {
                read_attributes(file, paths[i], &attributes);
                write_input(&inputs, paths[i] + strlen("/inputs/"), &attributes);
                free_attributes(&attributes);
            }
            free(paths[i]);
        }
        free(paths);
    }
    if (inputs.shown == 0) return;
    fputs("</tbody>\n", to);
    table_end(to);
    if (inputs.count > inputs.shown) fprintf(to, "<p>%d of %d inputs are shown.</p>\n", inputs.shown, inputs.count);
}
