/* compare_context.c - lists differences between two results files other than times and outputs. */
#include "compare.h"

#include "../base/fail.h"
#include "../base/sort.h"
#include "../base/texts.h"
#include "../record/provenance.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOCKS_DIFFER 0.01 /* smaller relative differences of clocks are noise */

static void add_difference(struct context *context, const char *what, const char *base, const char *new) {
    *APPEND(context->items, context->count) =
        (struct context_difference){must_strdup(what), must_strdup(base), must_strdup(new)};
}

/* Adds two numbers that differ, each with the unit behind it. */
static void add_numbers(struct context *context, const char *what, double base, double new, const char *unit) {
    OWNED char *of_base = must_printf("%.15g%s", base, unit), *of_new = must_printf("%.15g%s", new, unit);
    add_difference(context, what, of_base, of_new);
}

static void item_free(struct context_difference *item) {
    free(item->what);
    free(item->base);
    free(item->new);
}

void context_forget(struct context *context, const char *what) {
    int kept = 0;
    for (int i = 0; i < context->count; i++) {
        if (strcmp(context->items[i].what, what) == 0)
            item_free(&context->items[i]);
        else
            context->items[kept++] = context->items[i];
    }
    context->count = kept;
}

void context_free(struct context *context) {
    for (int i = 0; i < context->count; i++) item_free(&context->items[i]);
    free(context->items);
    *context = (struct context){.count = 0};
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* Adds, as `what`, a text attribute of an object of the files that differs; with `always` also one that only one file
 * has. */
static void compare_text(struct context *context, const struct comparison *files, const char *object, const char *name,
                         const char *what, bool always) {
    OWNED char *base = results_file_text(files->base, object, name), *new = results_file_text(files->new, object, name);
    bool both = base && new, differ = both ? strcmp(base, new) != 0 : always && (base || new);
    if (differ) add_difference(context, what, base ? base : "", new ? new : "");
}

/* Adds, as `what`, a number that both files have and that differs by more than the share `within`. */
static void compare_number(struct context *context, const struct comparison *files, const char *object,
                           const char *name, const char *what, double within) {
    double base = results_file_number(files->base, object, name), new = results_file_number(files->new, object, name);
    if (isnan(base) || isnan(new) || !(fabs(base - new) > within * fmax(fabs(base), fabs(new)))) return;
    add_numbers(context, what, base, new, "");
}

/* Adds the facts about program and machine that differ. */
static void compare_environment(struct context *context, const struct comparison *files) {
    static const char *const texts[] = {
        "hostname",     "os",       "cpu",          "gpu_name",     "compute_capability", "driver_version",
        "cuda_runtime", "compiler", "hdf5_version", "library_blas", "library_cublas",     "gpu_uuid"};
    static const char *const of_file[] = {"tool_version", "git_commit", "program_hash", "status"};
    for (size_t i = 0; i < sizeof of_file / sizeof *of_file; i++)
        compare_text(context, files, "/", of_file[i], of_file[i], false);
    compare_text(context, files, "/", "mixed_conditions", "mixed_conditions", true);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        compare_text(context, files, "/environment", texts[i], texts[i], strncmp(texts[i], "gpu", 3) == 0);
    compare_number(context, files, "/environment", "cpu_cores", "cpu_cores", 0);
    compare_number(context, files, "/environment", "power_limit_w", "power_limit_w", 0);
    compare_number(context, files, "/environment", "memory_clock_mhz", "memory_clock_mhz", CLOCKS_DIFFER);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Compares the runs' clocks by the median of their ratios, and adds the clocks of a pair that has this ratio. */
static void compare_clocks(struct context *context, const struct comparison *files) {
    OWNED double *ratios = must_malloc((unsigned long)files->count * sizeof *ratios);
    int count = 0;
    for (int i = 0; i < files->count; i++) {
        double ratio = files->pairs[i].new->sm_clock_mhz / files->pairs[i].base->sm_clock_mhz;
        if (ratio > 0 && isfinite(ratio)) ratios[count++] = ratio;
    }
    sort_doubles(ratios, count);
    double middle = count > 0 ? ratios[count / 2] : 1;
    for (int i = 0; i < files->count && fabs(middle - 1) > CLOCKS_DIFFER; i++) {
        double base = files->pairs[i].base->sm_clock_mhz, new = files->pairs[i].new->sm_clock_mhz;
        if (new / base != middle) continue;
        add_numbers(context, "sm_clock_mhz", round(base), round(new), " MHz");
        break;
    }
}

/* Adds the thread counts of the first pair that ran on different numbers of threads. */
static void compare_threads(struct context *context, const struct comparison *files) {
    for (int i = 0; i < files->count; i++) {
        int base = files->pairs[i].base->threads, new = files->pairs[i].new->threads;
        if (base == 0 || new == 0 || base == new) continue;
        add_numbers(context, "threads", base, new, "");
        return;
    }
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Adds what the files record differently about an input. Does anything differ? */
static bool compare_input(struct context *context, const struct comparison *files, const char *path) {
    static const char *const texts[] = {"xxh3", "dtype", "generator", "distribution"};
    static const char *const numbers[] = {"low", "high", "mean", "std", "value", "seed"};
    int before = context->count;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        OWNED char *what = must_printf("input %s, %s", path + strlen("/inputs/"), texts[i]);
        compare_text(context, files, path, texts[i], what, false);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        OWNED char *what = must_printf("input %s, %s", path + strlen("/inputs/"), numbers[i]);
        compare_number(context, files, path, numbers[i], what, 0);
    }
    return context->count > before;
}

/* Compares the inputs that the base has. Does any differ? */
static bool compare_inputs(struct context *context, const struct comparison *files) {
    FREED_BY(texts_clear) struct texts paths = results_file_inputs(files->base);
    bool differ = false;
    for (int i = 0; i < paths.count; i++) differ |= compare_input(context, files, paths.items[i]);
    return differ;
}

/* ---- the job, after parameters and defaults ---------------------------------------------------------------------- */

#define OPERATION "  - {id: " /* begins an operation's line */

/* The length of a line of the job up to the end of its name: of "  - {id: product", "  A", "device". */
static size_t name_length(const char *line) {
    bool is_operation = strncmp(line, OPERATION, strlen(OPERATION)) == 0;
    return strcspn(line, is_operation ? ",}\n" : ":\n");
}

/* The top-level line of a text under which `line` stands: `inputs:` for "  A: ..."; `line` itself if it is not
 * indented. */
static const char *section_of(const char *text, const char *line) {
    const char *section = line;
    for (const char *at = text; at <= line; at += strcspn(at, "\n") + 1)
        if (*at != ' ') section = at;
    return section;
}

/* Do both lines have the same name, in the same place? */
static bool same_name(const char *one, const char *other) {
    size_t length = name_length(one);
    return name_length(other) == length && strncmp(one, other, length) == 0;
}

/* The line of `text` that has the name and the section of `line`, a line of the text `other`; NULL: there is none. A
 * parameter and an input may have the same name. */
static const char *find_line(const char *text, const char *other, const char *line) {
    const char *section = section_of(other, line);
    bool inside = false; /* in a section of that name */
    for (const char *at = text; *at;) {
        if (*at != ' ') inside = same_name(at, section);
        if (inside && same_name(at, line)) return at;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return NULL;
}

/* Does an entry of a map, "key: ", begin here, after a comma? A comma in a list or in a text does not end a value. */
static bool begins_entry(const char *text) {
    size_t key =
        text[0] == ' ' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") : 0;
    return key > 0 && strncmp(text + 1 + key, ": ", 2) == 0;
}

/* The length of the longest common prefix of two lines that ends where an entry of a map begins. */
static size_t common_prefix(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t same = 0, start = 0;
    while (same < a_length && same < b_length && a[same] == b[same]) {
        same++;
        if (a[same - 1] == '{' || (same >= 2 && a[same - 2] == ',' && begins_entry(a + same - 1))) start = same;
    }
    return start;
}

/* The length of the longest common suffix of two lines that begins where an entry of a map ends. `start`: the bytes at
 * their beginning that do not count. */
static size_t common_suffix(const char *a, size_t a_length, const char *b, size_t b_length, size_t start) {
    size_t same = 0, end = 0;
    while (same < a_length - start && same < b_length - start && a[a_length - same - 1] == b[b_length - same - 1]) {
        same++;
        const char *at = a + a_length - same;
        if (*at == '}' || (*at == ',' && begins_entry(at + 1))) end = same;
    }
    return end;
}

/* Adds the difference between a line of the base job and `new`, the line of the same name (NULL: there is none). A long
 * line is shortened to the part that differs. `name_end`: name_length of `base`. */
static void compare_line(struct context *context, const char *base, const char *new, size_t name_end) {
    size_t skip = strncmp(base, OPERATION, strlen(OPERATION)) == 0 ? strlen(OPERATION) : strspn(base, " ");
    size_t base_length = strcspn(base, "\n"), new_length = new ? strcspn(new, "\n") : 0;
    bool differs = !new || base_length != new_length || strncmp(base, new, base_length) != 0;
    if (!differs) return;
    bool quoted = name_end > skip + 1 && base[skip] == '"';
    int length = (int)(name_end - skip) - (quoted ? 2 : 0);
    OWNED char *what = must_printf("job, %.*s", length, base + skip + quoted);
    /* The bytes that both lines have at their start, and at their end. */
    size_t start = new ? common_prefix(base, base_length, new, new_length) : 0;
    size_t end = new ? common_suffix(base, base_length, new, new_length, start) : 0;
    if (start < name_end) start = new ? name_end + strspn(base + name_end, ": ") : 0;
    if (start + end > base_length || start + end > new_length) end = 0;
    OWNED char *before = must_printf("%.*s", (int)(base_length - start - end), base + start);
    OWNED char *after = new ? must_printf("%.*s", (int)(new_length - start - end), new + start) : must_strdup("");
    add_difference(context, what, new ? before : "present", new ? after : "absent");
}

/* Does a line of the job affect the results? All do but `output` and `name`. */
static bool is_relevant(const char *line) {
    return *line && *line != '\n' && strncmp(line, "output:", 7) != 0 && strncmp(line, "name:", 5) != 0;
}

/* Adds a difference for each line that changed, then one for each line that only the new job has. */
static void compare_jobs(struct context *context, const char *base, const char *new) {
    for (const char *line = base; *line;) {
        size_t name_end = name_length(line);
        if (is_relevant(line)) compare_line(context, line, find_line(new, base, line), name_end);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    for (const char *line = new; *line;) {
        size_t name_end = name_length(line);
        if (is_relevant(line) && !find_line(base, new, line)) {
            compare_line(context, line, NULL, name_end);
            /* compare_line has taken the line for one of the base. */
            struct context_difference *last = &context->items[context->count - 1];
            char *swapped = last->base;
            last->base = last->new;
            last->new = swapped;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* The hash that a file records for the source called `name`; NULL: it has no such source. The caller frees. */
static char *hash_of_source(const struct results_file *file, const char *name) {
    for (int i = 0;; i++) {
        OWNED char *object = must_printf("%s/%d", OWN_SOURCES, i);
        OWNED char *found = results_file_text(file, object, "name");
        if (!found) return NULL;
        if (strcmp(found, name) == 0) return results_file_text(file, object, "sha256");
    }
}

/* Adds the sources of user kernels that have other texts. */
static void compare_sources(struct context *context, const struct comparison *comparison) {
    for (int i = 0;; i++) {
        OWNED char *object = must_printf("%s/%d", OWN_SOURCES, i);
        OWNED char *name = results_file_text(comparison->base, object, "name");
        if (!name) return;
        OWNED char *base = hash_of_source(comparison->base, name), *new = hash_of_source(comparison->new, name);
        if (!base || !new || strcmp(base, new) == 0) continue;
        OWNED char *what = must_printf("source %s", name), *before = must_printf("%.12s...", base);
        OWNED char *after = must_printf("%.12s...", new);
        add_difference(context, what, before, after);
    }
}

struct context context_compare(struct comparison *comparison) {
    struct context context = {0};
    compare_environment(&context, comparison);
    compare_clocks(&context, comparison);
    compare_threads(&context, comparison);
    comparison->inputs_differ = compare_inputs(&context, comparison);
    OWNED char *base = results_file_job(comparison->base, true), *new = results_file_job(comparison->new, true);
    if (base && new) compare_jobs(&context, base, new);
    compare_sources(&context, comparison);
    return context;
}
