/* inspect.c - `tilerun inspect FILE [DATASET]`: what of a file a job can read, and a job to begin with. */
#include "../base/table.h"
#include "../base/text.h"
#include "../storage/h5list.h"
#include "../stream/device.h"
#include "command.h"

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_JOB = OPTION_OWN, MOST_INPUTS = 8 /* of a job to begin with: the largest */ };

/* A data set as the input of a job. */
struct candidate {
    const struct h5_entry *entry;
    struct job_input source;
    struct array array;
    struct error unusable; /* STATUS_OK: it can be an input, and `array` describes it */
    double bytes_per_s;    /* predicted, of its elements */
};

struct view {
    char *path;
    struct h5_list list;
    int usable;
    struct candidate *of; /* one an entry */
};

static enum status look(const char *path, const char *object, struct view *view, struct error *error) {
    struct device_facts cpu; /* which reads */
    *view = (struct view){.path = must_strdup(path)};
    TRY(h5_list(path, object, &view->list, error));
    device_cpu_facts(&cpu);
    view->of = must_malloc((unsigned long)view->list.count * sizeof *view->of + 1);
    for (int i = 0; i < view->list.count; i++) {
        struct candidate *it = &view->of[i];
        *it = (struct candidate){.entry = &view->list.entries[i]};
        it->source = (struct job_input){.name = it->entry->name, .file = view->path, .dataset = it->entry->name};
        if (array_describe(&it->source, &it->array, &it->unusable) || array_check_claim(&it->array, &it->unusable))
            continue;
        it->bytes_per_s = plan_read_rate(&it->array, &cpu);
        view->usable++;
    }
    return STATUS_OK;
}

static void view_free(struct view *view) {
    for (int i = 0; view->of && i < view->list.count; i++) array_free(&view->of[i].array);
    free(view->of);
    h5_list_free(&view->list);
    free(view->path);
}

/* Why it cannot be an input, without the file and name that stand beside it; in short, up to a semicolon. The caller
 * frees. */
static char *reason(const struct view *view, const struct candidate *it, bool in_short) {
    char *known = must_printf("%s: '%s' ", view->path, it->entry->name);
    size_t length = strlen(known);
    const char *text = it->unusable.text + (strncmp(it->unusable.text, known, length) == 0 ? length : 0);
    free(known);
    return must_printf("%.*s", (int)strcspn(text, in_short ? ";" : ""), text);
}

static double bytes_of(const struct candidate *it) {
    return (double)shape_elements(&it->array.shape) * (double)dtype_size(it->array.dtype);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { NAME, SHAPE, TYPE, LAYOUT, FILTERS, MEMORY, DISK, INPUT, COLUMNS };
static const struct table_column columns[COLUMNS] = {
    [NAME] = {.name = "data set"},
    [SHAPE] = {.name = "shape"},
    [TYPE] = {.name = "type"},
    [LAYOUT] = {.name = "layout", .priority = 2},
    [FILTERS] = {.name = "filters", .priority = 3},
    [MEMORY] = {.name = "in memory", .right = true, .priority = 1},
    [DISK] = {.name = "on disk", .right = true, .priority = 4},
    [INPUT] = {.name = "as an input"},
};

static void add_row(struct table *table, const struct view *view, const struct candidate *it) {
    const struct h5_entry *entry = it->entry;
    char text[32];
    table_row(table);
    table_cell(table, NAME, "%s", entry->name);
    table_cell(table, SHAPE, "%s", entry->shape);
    table_cell(table, TYPE, "%s", entry->type);
    table_cell(table, LAYOUT, "%s", entry->layout);
    table_cell(table, FILTERS, "%s", entry->filters);
    if (entry->bytes > 0) table_cell(table, MEMORY, "%s", size_text(entry->bytes, text));
    if (entry->stored > 0) table_cell(table, DISK, "%s", size_text(entry->stored, text));
    if (!it->unusable.status) {
        table_cell(table, INPUT, "%.1f GB/s", it->bytes_per_s / 1e9);
    } else {
        char *why = reason(view, it, true);
        table_cell(table, INPUT, "no: %s", why);
        free(why);
    }
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

static void print_table(const struct view *view) {
    double bytes = 0;
    char text[32];
    for (int i = 0; i < view->list.count; i++) bytes += view->list.entries[i].bytes;
    char *path = text_clean(view->path);
    printf("%s: %d data set%s, %s in memory; %d can be inputs of a job\n\n", path, view->list.count,
           view->list.count == 1 ? "" : "s", size_text(bytes, text), view->usable);
    free(path);
    struct table *table = table_create(columns, COLUMNS);
    for (int i = 0; i < view->list.count; i++) add_row(table, view, &view->of[i]);
    table_print(table, table_room(), NULL, stdout);
    table_free(table);
    print_broken(view);
    print_outside(view);
}

/* ---- one data set ------------------------------------------------------------------------------------------------ */

static void print_line(const char *what, const char *text) {
    char *clean = text_clean(text);
    if (*clean) printf("  %-10s %s\n", what, clean);
    free(clean);
}

/* Those of its axes that have a label or dimension scales: "0 (time), 2". */
static void print_axes(const struct array *array) {
    char *text = must_strdup("");
    for (int axis = 0; axis < array->shape.rank; axis++) {
        if (array->axes[axis].of != array) continue;
        const char *label = array->axes[axis].label;
        char *longer = must_printf(label ? "%s%s%d (%s)" : "%s%s%d", text, *text ? ", " : "", axis, label);
        free(text);
        text = longer;
    }
    print_line("named axes", text);
    free(text);
}

static void print_one(const struct view *view) {
    const struct candidate *it = &view->of[0];
    const struct h5_entry *entry = it->entry;
    char memory[32], disk[32], time[32];
    char *name = must_printf("%s in %s", entry->name, view->path), *clean = text_clean(name);
    printf("%s\n", clean);
    print_line("type", entry->type);
    print_line("shape", entry->shape);
    print_line("layout", entry->layout);
    print_line("filters", entry->filters);
    if (entry->bytes > 0) print_line("in memory", size_text(entry->bytes, memory));
    if (entry->stored > 0) print_line("on disk", size_text(entry->stored, disk));
    if (it->unusable.status) {
        char *why = reason(view, it, false);
        print_line("no input", why);
        free(why);
    } else {
        print_line("units", it->array.units ? it->array.units : "");
        print_line("long_name", it->array.long_name ? it->array.long_name : "");
        print_axes(&it->array);
        printf("  %-10s %s, about %.1f GB/s: %s\n", "reading",
               it->array.direct ? "on all cores" : "by HDF5, on one core", it->bytes_per_s / 1e9,
               time_words(bytes_of(it) / it->bytes_per_s, time));
    }
    free(clean);
    free(name);
}

/* ---- a job to begin with ----------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text) {
    for (int length; *text; text += length)
        if ((length = utf8_length(text, strlen(text))) == 0) return false;
    return true;
}

/* It has elements along an axis, and a name that YAML can hold. */
static bool fits_job(const struct candidate *it) {
    return !it->unusable.status && it->array.shape.rank > 0 && shape_elements(&it->array.shape) > 0 &&
           is_utf8(it->entry->name);
}

static int compare_bytes(const void *one, const void *other) {
    const struct candidate *const *a = one, *const *b = other;
    double less = bytes_of(*a) - bytes_of(*b);
    return less > 0 ? -1 : less < 0 ? 1 : strcmp((*a)->entry->name, (*b)->entry->name);
}

/* The last part of a data set's name as the name of an input; `number` sets it apart. The caller frees. */
static char *input_name(const char *dataset, int number) {
    char *name = must_printf("%.40s", strrchr(dataset, '/') + 1);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 127) *c = '_';
    char *whole = must_printf(number ? "%s%s_%d" : "%s%s", isalpha((unsigned char)*name) ? "" : "x", name, number);
    free(name);
    return whole;
}

/* Names that differ from one another, and from those of the operations, which begin with "mean_of_". */
static void name_inputs(struct candidate *const chosen[], int count, char *names[]) {
    for (int i = 0; i < count; i++) {
        names[i] = NULL;
        for (int number = 0, taken = 1; taken; number++) {
            free(names[i]);
            names[i] = input_name(chosen[i]->entry->name, number);
            taken = strncmp(names[i], "mean_of_", 8) == 0 && number == 0;
            for (int j = 0; j < i; j++) taken |= strcmp(names[i], names[j]) == 0;
        }
    }
}

static void print_job(const struct view *view, struct candidate *const chosen[], int count, int left_out) {
    char *names[MOST_INPUTS];
    name_inputs(chosen, count, names);
    const char *slash = strrchr(view->path, '/'), *file = slash ? slash + 1 : view->path;
    char *output = must_printf("mean-of-%.*s.h5", (int)strcspn(file, "."), file);
    printf(
        "# The mean along the first axis of each input. Save this file in the current directory, and see what can be\n"
        "# changed in it: operations by `tilerun list`, keys in configs/README.md.\n"
        "version: 1\noutput: ");
    job_print_text(stdout, output, true);
    printf("\ninputs:\n");
    for (int i = 0; i < count; i++) {
        printf("  %s: {file: ", names[i]);
        job_print_text(stdout, view->path, true);
        printf(", dataset: ");
        job_print_text(stdout, chosen[i]->entry->name, true);
        printf("} # %s, %s\n", chosen[i]->entry->shape, chosen[i]->entry->type);
    }
    if (left_out) printf("  # %d smaller data set%s left out\n", left_out, left_out == 1 ? "" : "s");
    printf("defaults: {warmup: 0, repeat: 1} # without this line: times\noperations:\n");
    for (int i = 0; i < count; i++)
        printf("  - {id: mean_of_%s, op: reduce, inputs: [%s], operator: mean, axis: 0}\n", names[i], names[i]);
    for (int i = 0; i < count; i++) free(names[i]);
    free(output);
}

/* The largest of the data sets, in the order of their names. */
static enum status begin_job(const struct view *view, struct error *error) {
    struct candidate **fitting = must_malloc((unsigned long)view->list.count * sizeof *fitting + 1);
    int count = 0, chosen;
    for (int i = 0; i < view->list.count; i++)
        if (fits_job(&view->of[i])) fitting[count++] = &view->of[i];
    enum status status = STATUS_OK;
    if (count == 0 && view->list.count == 1 && view->usable == 0)
        status = fail(error, STATUS_USAGE, "%s", view->of[0].unusable.text);
    else if (count == 0)
        status = fail(error, STATUS_USAGE, "%s: holds no data set with elements that a job can read", view->path);
    else if (!is_utf8(view->path))
        status = fail(error, STATUS_USAGE, "%s: a job file cannot have this name, which is not UTF-8", view->path);
    qsort(fitting, (size_t)count, sizeof(*fitting), compare_bytes);
    chosen = count < MOST_INPUTS ? count : MOST_INPUTS;
    if (!status) print_job(view, fitting, chosen, count - chosen);
    free(fitting);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum status inspect(int argc, char **argv, struct error *error) {
    static const struct option options[] = {{"job", no_argument, NULL, OPTION_JOB}, {0}};
    bool job = false;
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code != OPTION_JOB) return command_misused(&command_inspect, code, argv, error);
        job = true;
    }
    TRY(command_operands(&command_inspect, argc, 1, 2, error));
    const char *object = optind + 1 < argc ? argv[optind + 1] : "/";
    struct view view;
    enum status status = look(argv[optind], object, &view, error);
    if (!status && job)
        status = begin_job(&view, error);
    else if (!status && view.list.count == 1 && optind + 1 < argc)
        print_one(&view);
    else if (!status)
        print_table(&view);
    view_free(&view);
    return status;
}

const struct command command_inspect = {
    .name = "inspect",
    .arguments = "[--job] FILE [DATASET]",
    .summary = "what of an HDF5 file a job can read: shapes, types, chunks, filters, sizes, rates",
    .help = "  --job              print a job to begin with, which means the largest data sets\n"
            "FILE is an HDF5 file. DATASET is one of its data sets, of which more is said, or a group.\n"
            "Rates are predicted for this machine.\n",
    .run = inspect,
};
