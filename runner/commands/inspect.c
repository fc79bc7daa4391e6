/* inspect.c - `tilerun inspect FILE [DATASET]`: what of a file a job can read, and a job to begin with. */
#include "inspect.h"

#include "../base/fail.h"
#include "../base/text.h"
#include "../storage/untrusted/h5cf.h"
#include "../stream/device.h"

#include <stdlib.h>
#include <string.h>

struct inspect_settings {
    bool job, all;
};

static void describe(struct view *view, struct candidate *it, const struct device_facts *cpu) {
    it->described = true;
    it->source = (struct job_input){.name = it->entry->name, .file = view->path, .dataset = it->entry->name};
    if (!array_describe(&it->source, &it->array, &it->unusable) && !array_check_claim(&it->array, &it->unusable) &&
        !array_check_sources(&it->array, &it->unusable))
        it->bytes_per_s = plan_read_rate(&it->array, cpu);
}

/* The one that was looked at in its place. */
static const struct candidate *stands_for(const struct candidate *it) {
    while (!it->described && it->like) it = it->like;
    return it;
}

/* Looks at each data set that is listed by itself, and at those whose elements lie in other files, which may be
 * missing; of others that are alike the last that is listed stands for the rest. */
static enum status look(const char *path, const char *object, bool all, struct view *view, struct error *error) {
    struct device_facts cpu; /* which reads */
    *view = (struct view){.path = must_strdup(path)};
    TRY(h5_list(path, object, &view->list, error));
    device_cpu_facts(&cpu);
    all |= view->list.count == 1 && strcmp(object, "/") != 0; /* it was asked for */
    view->of = must_malloc((unsigned long)view->list.count * sizeof *view->of + 1);
    for (int i = 0; i < view->list.count; i++) {
        struct h5_entry *entry = &view->list.entries[i];
        view->of[i] = (struct candidate){.entry = entry, .hidden = entry->kind >= H5_NO_INPUT && !all};
    }
    if (!all) inspect_fold(view);
    for (int i = 0; i < view->list.count; i++) {
        struct candidate *it = &view->of[i];
        bool alone = view->list.count == 1,
             elsewhere = strcmp(it->entry->layout, "virtual") == 0 || strcmp(it->entry->layout, "external") == 0;
        bool counted = it->entry->kind < H5_NO_INPUT && (!it->like || elsewhere);
        if (alone || counted || !it->hidden) describe(view, it, &cpu);
    }
    for (int i = 0; i < view->list.count; i++) {
        const struct candidate *it = stands_for(&view->of[i]);
        view->usable += it->entry->kind < H5_NO_INPUT && !it->unusable.status;
    }
    return STATUS_OK;
}

static void view_free(struct view *view) {
    for (int i = 0; view->of && i < view->list.count; i++) {
        array_free(&view->of[i].array);
        free(view->of[i].pattern);
    }
    free(view->of);
    h5_list_free(&view->list);
    free(view->path);
}

double inspect_bytes(const struct candidate *it) {
    if (!it->described || it->unusable.status) return it->entry->bytes;
    return (double)shape_elements(&it->array.shape) * (double)dtype_size(it->array.dtype);
}

/* ---- why not ----------------------------------------------------------------------------------------------------- */

char *inspect_reason(const struct view *view, const struct candidate *it, bool in_short) {
    char *known = must_printf("%s: '%s' ", view->path, it->entry->name);
    size_t length = strlen(known);
    const char *text = it->unusable.text + (strncmp(it->unusable.text, known, length) == 0 ? length : 0);
    free(known);
    return must_printf("%.*s", (int)strcspn(text, in_short ? ";" : ""), text);
}

/* What it is, as a noun: "scalar", "string"; plural, if there are several. The caller frees. */
static char *class_of(const struct candidate *it, int count) {
    const struct h5_entry *entry = it->entry;
    if (entry->kind >= H5_NO_INPUT) return must_strdup(h5_kind_name(entry->kind, count));
    if (strstr(entry->filters, "(not installed)"))
        return must_strdup(count == 1 ? "filter that is not here" : "filters that are not here");
    if (!strstr(it->unusable.text, "' holds ")) return must_strdup(count == 1 ? "other reason" : "other reasons");
    int length = (int)strcspn(entry->type, ": "); /* "table: x, y", "enumeration of int8" */
    return must_printf("%.*s%s", length, entry->type,
                       count > 1 && length > 0 && entry->type[length - 1] != 'x' ? "s" : "");
}

char *inspect_reasons(const struct view *view) {
    enum { MOST = 12 };
    struct {
        const struct candidate *it;
        char *class;
        int count;
    } found[MOST];
    int classes = 0;
    for (int i = 0; i < view->list.count; i++) {
        const struct candidate *it = stands_for(&view->of[i]);
        if (it->described && !it->unusable.status) continue;
        char *class = class_of(it, 1);
        int at = 0;
        while (at < classes && strcmp(found[at].class, class) != 0) at++;
        if (at == MOST) at--;
        if (at == classes) {
            found[classes].it = it;
            found[classes].count = 0;
            found[classes++].class = class;
        } else {
            free(class);
        }
        found[at].count++;
    }
    char *text = NULL;
    size_t length;
    FILE *to = must_stream(&text, &length);
    for (int i = 0; i < classes; i++) {
        char *class = class_of(found[i].it, found[i].count);
        fprintf(to, "%s%d %s", i ? ", " : "", found[i].count, class);
        free(class);
        free(found[i].class);
    }
    fclose(to);
    return text;
}

/* ---- one data set ------------------------------------------------------------------------------------------------ */

static void print_line(const char *what, const char *text) {
    char *clean = text_clean(text);
    if (*clean) printf("  %-10s %s\n", what, clean);
    free(clean);
}

/* Those of its axes that have a name or dimension scales: "0 (time), 2". */
static void print_axes(const struct candidate *it) {
    char *text = must_strdup("");
    for (int axis = 0; axis < it->array.shape.rank; axis++) {
        const char *name = it->entry->axes[axis];
        if (it->array.axes[axis].of != &it->array && !name) continue;
        char *longer = must_printf(name ? "%s%s%d (%s)" : "%s%s%d", text, *text ? ", " : "", axis, name);
        free(text);
        text = longer;
    }
    print_line("named axes", text);
    free(text);
}

/* What its attributes say of its numbers, and what follows from that for a job. */
static void print_values(const struct view *view, const struct candidate *it) {
    h5cf_list(view->path, it->entry->name, print_line);
    if (it->array.decoding) {
        char *how = decoding_text(it->array.decoding),
             *text = must_printf("%s; as %s", how, dtype_name(it->array.dtype));
        print_line("decoded", text);
        free(text);
        free(how);
    }
    if (it->array.remark) print_line("remark", it->array.remark);
}

static void print_one(struct view *view) {
    const struct candidate *it = &view->of[0];
    struct h5_entry *entry = it->entry;
    char memory[32], disk[32], time[32];
    char *name = must_printf("%s in %s", entry->name, view->path), *clean = text_clean(name);
    h5_list_axes(view->path, &view->list, &entry, 1);
    printf("%s\n", clean);
    print_line("type", entry->type);
    print_line("shape", entry->shape);
    print_line("layout", entry->layout);
    print_line("filters", entry->filters);
    print_line("is", inspect_use(entry));
    if (entry->bytes > 0) print_line("in memory", size_text(entry->bytes, memory));
    if (entry->stored > 0) print_line("on disk", size_text(entry->stored, disk));
    if (it->unusable.status) {
        char *why = inspect_reason(view, it, false);
        print_line("no input", why);
        free(why);
    } else {
        print_line("units", it->array.units ? it->array.units : "");
        print_line("long_name", it->array.long_name ? it->array.long_name : "");
        print_values(view, it);
        print_axes(it);
        printf("  %-10s %s, about %.1f GB/s: %s\n", "reading",
               it->array.direct ? "on all cores" : "by HDF5, on one core", it->bytes_per_s / 1e9,
               duration_text(inspect_bytes(it) / it->bytes_per_s, time));
    }
    inspect_print_remarks(view);
    free(clean);
    free(name);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum status inspect(const struct invocation *invocation, struct error *error) {
    const struct inspect_settings *settings = invocation->settings;
    const char *path = invocation->operands[0], *object = invocation->count > 1 ? invocation->operands[1] : "/";
    struct view view;
    enum status status = look(path, object, settings->all, &view, error);
    if (!status && settings->job)
        status = inspect_print_job(&view, error);
    else if (!status && view.list.count == 1 && invocation->count > 1)
        print_one(&view);
    else if (!status)
        inspect_print_table(&view);
    view_free(&view);
    return status;
}

static const struct option_row rows[] = {
    {"job", 0, NULL, "print a job to begin with, as the names and shapes suggest",
     TAKE_FLAG(struct inspect_settings, job)},
    {"all", 0, NULL,
     "list every data set: also scalars, netCDF dimensions without a variable, parts of indices, and data sets that "
     "are "
     "like others",
     TAKE_FLAG(struct inspect_settings, all)},
    {0},
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "List the data sets of an HDF5 file that a job can read: shapes, types, chunks, filters, sizes, rates.",
    .description = "FILE is an HDF5 file. DATASET is one of its data sets, which is described in more detail, or a "
                   "group. Rates are predictions for this machine.\n",
    .operands = {"FILE [DATASET]", WORD_FILE, .least = 1, .most = 2},
    .rows = rows,
    .settings_bytes = sizeof(struct inspect_settings),
    .run = inspect,
};
