/* inspect_job.c - `tilerun inspect --job`: proposes a job from the names, axes and shapes of a file's data sets. */
#include "../base/match.h"
#include "../base/path.h"
#include "../base/text.h"
#include "../base/texts.h"
#include "inspect.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_PROPOSALS = 8, MAX_UNREADABLE = 100 /* fields that cannot be read, of all tables that are tried */ };

#define GRAM_FLOPS 2e10        /* no larger Gram matrix is proposed... */
#define COPY_BYTES (1LL << 30) /* ...and no larger transposed copy */

/* An input of the job. */
struct proposal {
    const struct input_candidate *candidate;
    char *name;
};

/* ---- choosing data sets ---------------------------------------------------------------------------------------- */

/* Can a job read it: has it elements along an axis, and a name that YAML can hold? */
static bool fits_job(const struct input_candidate *candidate) {
    return candidate->described && !candidate->hidden && candidate->entry->kind < H5_NO_INPUT &&
           !candidate->unusable.status && candidate->array.shape.rank > 0 &&
           shape_elements(&candidate->array.shape) > 0 && !text_not_utf8(candidate->entry->name);
}

/* Drops codes, masks and coordinates, which are sorted last, unless there is nothing before them. Returns how many
 * candidates are left. */
static int leave_out_codes(struct input_candidate *const sorted[], int count) {
    while (count > 0 && sorted[count - 1]->entry->kind >= H5_CODES &&
           sorted[count - 1]->entry->kind > sorted[0]->entry->kind)
        count--;
    return count;
}

/* Is `entry` named like an axis of `other`, in the same group? In NeXus files such a data set holds coordinates. */
static bool is_axis_of(const struct h5_entry *entry, const struct h5_entry *other) {
    size_t group = (size_t)(strrchr(entry->name, '/') - entry->name) + 1;
    if (entry == other || entry->long_axes > 1 || strncmp(entry->name, other->name, group) != 0) return false;
    for (int axis = 0; axis < other->rank && axis < MAX_RANK; axis++)
        if (other->rank > 1 && other->axes[axis] && strcmp(other->axes[axis], entry->name + group) == 0) return true;
    return false;
}

/* Removes the inputs that are named like an axis of another one. Returns how many are left. */
static int leave_out_axes(struct proposal inputs[], int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool is_axis = false;
        for (int j = 0; j < count; j++) is_axis |= is_axis_of(inputs[i].candidate->entry, inputs[j].candidate->entry);
        if (!is_axis) inputs[kept++] = inputs[i];
    }
    return kept;
}

/* ---- one data set in several files ----------------------------------------------------------------------------- */

/* Do both entries link to data sets of one name, in files whose names differ by a number? Then they are a series. */
static bool continues(const struct h5_entry *entry, const struct h5_entry *before) {
    if (!entry->link_file || !before->link_file || strcmp(entry->link_object, before->link_object) != 0 ||
        strcmp(entry->link_file, before->link_file) == 0)
        return false;
    const char *a = entry->name, *b = before->name;
    while (*a && *a == *b) a++, b++;
    return !strchr(a, '/') && !strchr(b, '/') && (isdigit((unsigned char)*a) || isdigit((unsigned char)*b));
}

/* The pattern that matches the names of the first and the last file, which differ by a number: their common beginning
 * and end, with digits in between. Relative names are taken from the folder of `path`, the file with the links. The
 * caller frees. */
static char *pattern_of(const char *path, const char *first, const char *last) {
    size_t first_length = strlen(first), last_length = strlen(last), head = 0, tail = 0;
    while (first[head] && first[head] == last[head]) head++;
    while (head > 0 && isdigit((unsigned char)first[head - 1])) head--;
    while (tail < first_length - head && tail < last_length - head &&
           first[first_length - 1 - tail] == last[last_length - 1 - tail])
        tail++;
    while (tail > 0 && isdigit((unsigned char)first[first_length - tail])) tail--;
    int folder_bytes = *first == '/' ? 0 : (int)(path_name(path) - path);
    OWNED char *common = must_printf("%.*s%.*s", folder_bytes, path, (int)head, first);
    OWNED char *begin = match_escape(common), *end = match_escape(first + first_length - tail);
    if (first_length != last_length) return must_printf("%s[0-9]*%s", begin, end);
    OWNED char *digits = must_strdup("");
    for (size_t i = head; i < first_length - tail; i++) must_append(&digits, "[0-9]");
    return must_printf("%s%s%s", begin, *digits ? digits : "[0-9]*", end);
}

/* Does the pattern match exactly the files that these entries link to, in this order? */
static bool matches_all(const char *pattern, struct input_candidate *const series[], int count) {
    char **paths = NULL;
    int found = match_files(pattern, &paths);
    bool all = found == count;
    for (int i = 0; i < found; i++) {
        size_t length = strlen(paths[i]), name_length = all ? strlen(series[i]->entry->link_file) : 0;
        all = all && length >= name_length && strcmp(paths[i] + length - name_length, series[i]->entry->link_file) == 0;
    }
    texts_free(paths, found);
    return all;
}

/* Joins external links that differ only by a number, from candidate `at` on, into one concatenated input, if its array
 * can be described. A detector's master file has such links: data_000001 -> run_data_000001.h5:/entry/data/data,
 * data_000002 -> ... Returns the index after the series. */
static int join_links(struct listing *listing, int at) {
    OWNED struct input_candidate **series = must_malloc((unsigned long)(listing->list.count - at) * sizeof *series);
    struct input_candidate *first = &listing->candidates[at];
    int count = 1;
    for (series[0] = first; at + count < listing->list.count; count++) {
        series[count] = &listing->candidates[at + count];
        if (!continues(series[count]->entry, series[count - 1]->entry)) break;
    }
    if (count > 1)
        first->pattern = pattern_of(listing->path, first->entry->link_file, series[count - 1]->entry->link_file);
    if (count > 1 && matches_all(first->pattern, series, count)) {
        const struct job_input unjoined = first->source;
        first->source.concatenated = true;
        first->source.file = first->pattern;
        first->source.dataset = first->entry->link_object;
        array_free(&first->array);
        bool joined = !array_describe(&first->source, &first->array, &first->unusable);
        for (int i = 1; i < count && joined; i++) series[i]->hidden = true;
        if (!joined) {
            array_free(&first->array);
            first->source = unjoined;
            first->unusable = (struct error){0};
            array_describe(&unjoined, &first->array, &first->unusable);
        }
    }
    if (!first->source.concatenated) {
        free(first->pattern);
        first->pattern = NULL;
    }
    return at + count;
}

/* Hides virtual data sets of the same shape and type as the joined input: HDF5 would read them on one core. */
static void leave_out_virtual(struct listing *listing, const struct input_candidate *joined) {
    for (int i = 0; i < listing->list.count; i++) {
        struct input_candidate *candidate = &listing->candidates[i];
        if (strcmp(candidate->entry->layout, "virtual") == 0 && candidate->described && !candidate->unusable.status &&
            candidate->array.dtype == joined->array.dtype && shape_equal(&candidate->array.shape, &joined->array.shape))
            candidate->hidden = true;
    }
}

/* ---- fields of tables -------------------------------------------------------------------------------------------- */

/* Finds the numeric fields of tables and the parts of complex numbers, except indices and coordinates by their names.
 * Returns how many are in `fields`, which the caller frees with free_fields. *unusable: why the first unreadable field
 * cannot be read, if there is one. */
static int find_fields(const struct listing *listing, struct input_candidate fields[MAX_PROPOSALS],
                       struct error *unusable) {
    int count = 0, unreadable = 0;
    for (int i = 0; i < listing->list.count && count < MAX_PROPOSALS && unreadable < MAX_UNREADABLE; i++) {
        const struct input_candidate *data_set = &listing->candidates[i];
        if (data_set->hidden || text_not_utf8(data_set->entry->name)) continue;
        for (int f = 0; f < data_set->entry->fields.count && count < MAX_PROPOSALS; f++) {
            struct input_candidate *field = &fields[count];
            const char *name = data_set->entry->fields.items[f];
            *field = (struct input_candidate){.entry = data_set->entry, .source = data_set->source, .described = true};
            field->source.field = must_strdup(name);
            bool has_values = h5_kind_of_field(name) == H5_VALUES && !text_not_utf8(name);
            if (has_values && !candidate_describe(field) && fits_job(field)) {
                count++;
                continue;
            }
            if (field->unusable.status && unreadable++ == 0) *unusable = field->unusable;
            array_free(&field->array);
            free(field->source.field);
        }
    }
    return count;
}

static void free_fields(struct input_candidate fields[], int count) {
    for (int i = 0; i < count; i++) {
        array_free(&fields[i].array);
        free(fields[i].source.field);
    }
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

struct operation_list {
    FILE *to;         /* the text of the operations */
    const char *stem; /* the file's name without its ending */
    bool gram, copy;  /* one is proposed already */
};

/* Proposes a reduction of an input along an axis; `why`: a comment behind it, or "". */
static void print_reduction(struct operation_list *work, const struct proposal *input, const char *operator, int axis,
                            bool skip_nan, const char *why) {
    fprintf(work->to, "  - {id: %s_of_%s, op: reduce, inputs: [%s], operator: %s, axis: %d%s}%s%s\n", operator,
            input->name, input->name, operator, axis, skip_nan ? ", skip_nan: true" : "", *why ? " # " : "", why);
}

/* The first axis whose name means time; -1: there is none. */
static int time_axis(const struct input_candidate *candidate) {
    static const char *const names[] = {"time", "t", "times", "valid_time", "date", "month", "year"};
    for (int axis = 0; axis < candidate->entry->rank && axis < candidate->array.shape.rank; axis++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (candidate->entry->axes[axis] && strcasecmp(candidate->entry->axes[axis], names[i]) == 0) return axis;
    return -1;
}

/* Proposes, for a variable over time, its mean over time. */
static bool propose_climatology(struct operation_list *work, const struct proposal *input) {
    int axis = time_axis(input->candidate);
    if (axis < 0 || input->candidate->array.shape.rank == 1) return false;
    print_reduction(work, input, "mean", axis, dtype_is_float(input->candidate->array.dtype), "over time");
    return true;
}

/* Proposes, for frames of a detector, the mean frame and the deviation of each pixel. */
static bool propose_frames(struct operation_list *work, const struct proposal *input) {
    const struct array *array = &input->candidate->array;
    if (array->shape.rank != 3 || (dtype_is_float(array->dtype) && !input->candidate->pattern)) return false;
    print_reduction(work, input, "mean", 0, false, "the mean frame: the dark, if these are dark frames");
    print_reduction(work, input, "std", 0, false, "how much each pixel varies");
    return true;
}

/* Proposes, for a matrix that MATLAB wrote, MATLAB's mean(), and a copy whose axes are in MATLAB's order. */
static bool propose_copy(struct operation_list *work, const struct proposal *input) {
    const struct array *array = &input->candidate->array;
    if (!(input->candidate->entry->marks & H5_MARK_MATLAB) || array->shape.rank != 2) return false;
    print_reduction(work, input, "mean", array->shape.size[1] > 1, false,
                    "MATLAB's mean(): axes are in reverse order here");
    if (work->copy || candidate_bytes(input->candidate) > COPY_BYTES) return true;
    work->copy = true;
    fprintf(work->to,
            "  - {id: copy_of_%s, op: transpose, inputs: [%s], to: \"%s-in-order.h5:/%s\"} # as MATLAB shows it\n",
            input->name, input->name, work->stem, input->name);
    return true;
}

/* Is the candidate a table of samples? anndata names such tables X and /obsm/...; others have many more rows than
 * columns. */
static bool is_samples(const struct input_candidate *candidate) {
    const struct shape *shape = &candidate->array.shape;
    if (shape->rank != 2 || candidate->entry->kind != H5_VALUES || candidate->entry->axes[0] ||
        candidate->entry->axes[1])
        return false;
    double rows = (double)shape->size[0], columns = (double)shape->size[1];
    bool named =
        strcmp(strrchr(candidate->entry->name, '/'), "/X") == 0 || strncmp(candidate->entry->name, "/obsm/", 6) == 0;
    return columns >= 2 && (named || rows >= 4 * columns) && 2 * rows * columns * columns <= GRAM_FLOPS;
}

/* Proposes, for samples x features, the mean of each feature, and the Gram matrix. */
static bool propose_samples(struct operation_list *work, const struct proposal *input) {
    if (!is_samples(input->candidate)) return false;
    print_reduction(work, input, "mean", 0, false, "of each column");
    if (work->gram) return true;
    work->gram = true;
    fprintf(work->to, "  - {id: gram_of_%s, op: matmul, inputs: [%s, %s], transpose_a: true} # products of columns\n",
            input->name, input->name, input->name);
    return true;
}

/* Proposes, for any array, its mean along the first axis. */
static bool propose_mean(struct operation_list *work, const struct proposal *input) {
    print_reduction(work, input, "mean", 0, false, "");
    return true;
}

/* Tried in this order; the first that returns true has proposed operations. */
static bool (*const purposes[])(struct operation_list *, const struct proposal *) = {
    propose_climatology, propose_copy, propose_frames, propose_samples, propose_mean,
};

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* Makes the name of an input from a field or the last part of a data set's name; a `number` above 0 makes it unique.
 * The caller frees. */
static char *input_name(const struct input_candidate *candidate, int number) {
    const char *last = path_name(candidate->source.dataset);
    OWNED char *name = must_printf("%.40s", candidate->source.field ? candidate->source.field : last);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 127) *c = '_';
    return must_printf(number ? "%s%s_%d" : "%s%s", isalpha((unsigned char)*name) ? "" : "x", name, number);
}

/* Could the name be that of a proposed operation, or be no text in YAML? */
static bool is_taken(const char *name) {
    static const char *const taken[] = {"mean_of_", "std_of_", "gram_of_", "copy_of_"};
    static const char *const no_texts[] = {"null", "true", "false"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strncmp(name, taken[i], strlen(taken[i])) == 0) return true;
    for (size_t i = 0; i < sizeof no_texts / sizeof *no_texts; i++)
        if (strcasecmp(name, no_texts[i]) == 0) return true;
    return false;
}

/* Gives the inputs names that differ from one another and from those of operations. */
static void name_inputs(struct proposal inputs[], int count) {
    for (int i = 0; i < count; i++) {
        inputs[i].name = NULL;
        for (int number = 0, taken = 1; taken; number++) {
            free(inputs[i].name);
            inputs[i].name = input_name(inputs[i].candidate, number);
            taken = number == 0 && is_taken(inputs[i].name);
            for (int j = 0; j < i; j++) taken |= strcmp(inputs[i].name, inputs[j].name) == 0;
        }
    }
}

/* The type to read the input as; NULL: the data set's own. A Gram matrix in float32 would lose many digits. */
static const char *type_for(const struct proposal *input, const struct operation_list *work) {
    bool gram = !work->gram && is_samples(input->candidate) && !(input->candidate->entry->marks & H5_MARK_MATLAB);
    return gram && input->candidate->array.dtype != FLOAT64 ? "float64" : NULL;
}

/* Prints an input of the proposed job; a comment behind it states shape, type and use. `type`: the value of the key
 * `dtype`; NULL: the input gets no such key. */
static void print_input(const struct listing *listing, const struct proposal *input, const char *type) {
    const struct input_candidate *candidate = input->candidate;
    char shape[SHAPE_TEXT];
    printf("  %s: {file: ", input->name);
    job_print_text(stdout, candidate->pattern ? candidate->pattern : listing->path, true);
    printf(", dataset: ");
    job_print_text(stdout, candidate->source.dataset, true);
    if (candidate->source.field) {
        printf(", field: ");
        job_print_text(stdout, candidate->source.field, true);
    }
    if (candidate->pattern) printf(", concatenate: 0");
    if (type) printf(", dtype: %s", type);
    printf("} # %s, %s",
           candidate->pattern || candidate->source.field ? shape_format(&candidate->array.shape, shape)
                                                         : candidate->entry->shape,
           candidate->source.field ? dtype_name(candidate->array.dtype) : candidate->entry->type);
    const char *use = candidate_use(candidate->entry);
    printf(*use ? ", %s\n" : "\n", use);
}

/* Prints a job with these inputs. For each input the first of `purposes` that suits it adds operations. */
static void print_job(const struct listing *listing, struct proposal inputs[], int count, int left_out) {
    name_inputs(inputs, count);
    OWNED char *stem = path_stem(listing->path);
    OWNED char *output = must_printf("mean-of-%s.h5", stem);
    OWNED char *lines = NULL;
    struct operation_list work = {.to = must_stream(&lines), .stem = stem};
    printf(
        "# These operations are suggestions, made from the file's names, axes and shapes. Save this text as a file in\n"
        "# the current directory and edit it: `tilerun list` shows all operations, configs/README.md all keys.\n"
        "version: 1\noutput: ");
    job_print_text(stdout, output, true);
    printf("\ninputs:\n");
    for (int i = 0; i < count; i++) {
        print_input(listing, &inputs[i], type_for(&inputs[i], &work));
        size_t p = 0;
        while (!purposes[p](&work, &inputs[i])) p++;
    }
    fclose(work.to);
    if (left_out) printf("  # %d other data set%s left out\n", left_out, left_out == 1 ? "" : "s");
    for (int i = 0; i < listing->list.count; i++)
        if (listing->list.entries[i].note)
            text_print(stdout, "  # %s: jobs cannot read it; make a dense copy\n", listing->list.entries[i].note);
    printf("defaults: {warmup: 0, repeat: 1} # remove this line to time the operations\noperations:\n%s", lines);
    for (int i = 0; i < count; i++) free(inputs[i].name);
}

/* Reports why the file has no input. `field`: why a field of a table cannot be read, or no error. */
static enum status fail_nothing(const struct listing *listing, const struct error *field, struct error *error) {
    const struct error *only_reason = field->status ? field : &listing->candidates[0].unusable;
    if (listing->list.count == 1 && only_reason->status) return fail(error, STATUS_USAGE, "%s", only_reason->text);
    OWNED char *reasons = listing_reasons(listing);
    const char *sparse = NULL;
    for (int i = 0; i < listing->list.count && !sparse; i++) sparse = listing->list.entries[i].note;
    fail(error, STATUS_USAGE, "%s: contains no data set to begin a job with%s%s%s%s%s", listing->path,
         *reasons ? " (" : "", reasons, *reasons ? ")" : "", sparse ? "; " : "", sparse ? sparse : "");
    return STATUS_USAGE;
}

/* Chooses the inputs, best first. Takes fields of tables before single elements and codes if no data set has values.
 * Returns the number of inputs; *left_out becomes the number of others that would fit. */
static int choose(struct listing *listing, struct input_candidate fields[], int field_count, struct proposal inputs[],
                  int *left_out) {
    OWNED struct input_candidate **fitting =
        must_malloc((unsigned long)(listing->list.count + field_count) * sizeof *fitting + 1);
    int count = 0, chosen = 0;
    for (int i = 0; i < listing->list.count; i++)
        if (fits_job(&listing->candidates[i])) fitting[count++] = &listing->candidates[i];
    qsort(fitting, (size_t)count, sizeof(*fitting), candidate_compare);
    int all = count;
    if (field_count > 0 && (count == 0 || fitting[0]->entry->kind > H5_VALUES)) {
        memmove(fitting + field_count, fitting, (size_t)count * sizeof(*fitting));
        for (int i = 0; i < field_count; i++) fitting[i] = &fields[i];
        count = all += field_count;
    }
    count = leave_out_codes(fitting, count);
    for (; chosen < count && chosen < MAX_PROPOSALS; chosen++) inputs[chosen].candidate = fitting[chosen];
    *left_out = all - chosen;
    return chosen;
}

enum status inspect_print_job(struct listing *listing, struct error *error) {
    struct input_candidate table_fields[MAX_PROPOSALS];
    struct h5_entry *chosen_entries[MAX_PROPOSALS];
    struct proposal inputs[MAX_PROPOSALS];
    int left_out;
    for (int i = 0; i < listing->list.count;) i = join_links(listing, i);
    for (int i = 0; i < listing->list.count; i++)
        if (listing->candidates[i].pattern) leave_out_virtual(listing, &listing->candidates[i]);
    struct error unusable = {.status = STATUS_OK};
    int field_count = find_fields(listing, table_fields, &unusable);
    int chosen = choose(listing, table_fields, field_count, inputs, &left_out);
    enum status status = STATUS_OK;
    if (chosen == 0)
        status = fail_nothing(listing, &unusable, error);
    else if (text_not_utf8(listing->path))
        status = fail(error, STATUS_USAGE, "%s: no job file can name this file: rename it in UTF-8", listing->path);
    for (int i = 0; i < chosen; i++) chosen_entries[i] = inputs[i].candidate->entry;
    if (!status) {
        h5_list_axes(listing->path, &listing->list, chosen_entries, chosen);
        int kept = leave_out_axes(inputs, chosen);
        print_job(listing, inputs, kept, left_out + chosen - kept);
    }
    free_fields(table_fields, field_count);
    return status;
}
