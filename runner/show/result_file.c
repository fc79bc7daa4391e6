/* result_file.c - opens a results file and reads its rows, attributes and samples; finds the stored outputs. */
#include "result_file.h"

#include "../base/fail.h"
#include "../base/texts.h"
#include "../record/linked.h"
#include "../record/provenance.h"
#include "../storage/h5/h5attribute.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "../storage/untrusted/h5sources.h"
#include "../storage/untrusted/h5visit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The `store` of operation `id` in `list`, the operations of the resolved job; STORE_NONE: it is not there. */
static enum job_store store_of(const struct yaml_node *list, const char *id) {
    for (int i = 0; list && i < list->count; i++) {
        const struct yaml_node *found_id = yaml_get(list->items[i], "id"), *store = yaml_get(list->items[i], "store");
        if (!found_id || !found_id->text || strcmp(found_id->text, id) != 0 || !store || !store->text) continue;
        return strcmp(store->text, "all") == 0     ? STORE_ALL
               : strcmp(store->text, "first") == 0 ? STORE_FIRST
                                                   : STORE_NONE;
    }
    return STORE_NONE;
}

/* Does the run have a result? A roof is recognized by its message, and has none. */
static bool makes_result(const struct result_row *row) {
    return result_row_done(row) && strncmp(row->message, ROOF_MESSAGE, strlen(ROOF_MESSAGE)) != 0;
}

/* Reads the tags. Omits those with names that a job refuses: another program may have made the file. */
static void find_tags(struct results_file *file, const struct yaml_node *tags) {
    if (!tags || tags->kind != YAML_MAP) return;
    static const char tag_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    file->tags = must_malloc((size_t)(tags->count + 1) * sizeof *file->tags);
    for (int i = 0; i < tags->count; i++)
        if (tags->items[i]->text && !tags->keys[i]->text[strspn(tags->keys[i]->text, tag_letters)])
            file->tags[file->tag_count++] =
                (struct tag){must_strdup(tags->keys[i]->text), must_strdup(tags->items[i]->text)};
}

/* Reads from the job its tags, and which outputs should be stored: the first result of each operation, or all. */
static void read_job(struct results_file *file) {
    OWNED char *text = results_file_job(file, true);
    struct yaml_document *job = text ? yaml_parse(file->path, text, strlen(text)) : NULL;
    const struct yaml_node *list = job ? yaml_get(yaml_root(job), "operations") : NULL;
    file->expected = must_malloc((size_t)file->count * sizeof *file->expected + 1);
    bool task_has_result = false;
    for (int i = 0; file->rows && i < file->count; i++) {
        const struct result_row *row = &file->rows[i], *last = i ? row - 1 : NULL;
        if (!last || strcmp(row->operation, last->operation) != 0 || strcmp(row->parameters, last->parameters) != 0)
            task_has_result = false;
        enum job_store store = makes_result(row) ? store_of(list, row->operation) : STORE_NONE;
        file->expected[i] =
            (struct stored_outputs){.result = store != STORE_NONE && !task_has_result, .variant = store == STORE_ALL};
        task_has_result |= makes_result(row);
    }
    if (job) find_tags(file, yaml_get(yaml_root(job), "tags"));
    if (job) yaml_close(job);
}

/* Opens the file at file->path and reads its rows and job. STATUS_USAGE: it is no results file or part, or outputs of a
 * linked file are missing. */
static enum status read_file(struct results_file *file, struct error *error) {
    FENCE(file->path);
    hid_t id;
    TRY(h5_open_file(file->path, &id, error));
    file->id = id;
    OWNED char *schema = h5_get_text(id, "schema");
    if (!schema || (strcmp(schema, RESULT_SCHEMA) != 0 && strcmp(schema, PART_SCHEMA) != 0))
        return fail(error, STATUS_USAGE, "%s: is an HDF5 file, but not a results file of tilerun", file->path);
    TRY(result_load_rows(id, file->path, &file->rows, &file->count, error));
    OWNED char *broken = link_broken(id, file->path);
    if (broken) return fail(error, STATUS_USAGE, "%s: %s", file->path, broken);
    read_job(file);
    return STATUS_OK;
}

enum status results_file_open(const char *path, struct results_file **file, struct error *error) {
    FREED_BY(results_file_release) struct results_file *new = must_malloc(sizeof *new);
    *new = (struct results_file){.path = must_strdup(path), .id = H5I_INVALID_HID};
    *file = NULL;
    TRY(read_file(new, error));
    *file = disown(&new);
    return STATUS_OK;
}

void results_file_close(struct results_file *file) {
    if (!file) return;
    FENCE(file->path);
    if (file->id >= 0) H5Fclose(file->id);
    for (int i = 0; i < file->count && file->parts; i++) free(file->parts[i]);
    free(file->parts);
    for (int i = 0; i < file->tag_count; i++) {
        free(file->tags[i].name);
        free(file->tags[i].text);
    }
    free(file->tags);
    free(file->standing);
    free(file->missing);
    free(file->expected);
    free(file->rows);
    free(file->path);
    free(file);
}

/* Does every component of the path exist? */
static bool exists(hid_t file, const char *path) {
    char prefix[512];
    if (strcmp(path, "/") == 0) return true;
    for (const char *end = path; *end;) {
        end = strchr(end + 1, '/');
        if (!end) end = path + strlen(path);
        snprintf(prefix, sizeof prefix, "%.*s", (int)(end - path), path);
        if (H5Lexists(file, prefix, H5P_DEFAULT) <= 0) return false;
    }
    return true;
}

/* Opens an object, which the caller closes; negative: it does not exist. */
static hid_t open_object(const struct results_file *file, const char *path) {
    return file->id >= 0 && exists(file->id, path) ? H5Oopen(file->id, path, H5P_DEFAULT) : H5I_INVALID_HID;
}

char *results_file_text(const struct results_file *file, const char *object, const char *attribute) {
    FENCE(file->path);
    OWNED_ID hid_t id = open_object(file, object);
    return id < 0 ? NULL : h5_get_text(id, attribute);
}

double results_file_number(const struct results_file *file, const char *object, const char *attribute) {
    FENCE(file->path);
    double value = NAN;
    OWNED_ID hid_t id = open_object(file, object);
    return id >= 0 && h5_get_number(id, attribute, FLOAT64, &value) ? value : NAN;
}

char *results_file_source(const struct results_file *file, const char *path) {
    FENCE(file->path);
    return file->id >= 0 && exists(file->id, path) ? provenance_read_text(file->id, path) : NULL;
}

char *results_file_job(const struct results_file *file, bool resolved) {
    return results_file_source(file, resolved ? "/job_resolved" : "/job");
}

/* For h5_visit: adds the path of a group with an attribute `dtype`, which marks an input. */
static herr_t add_input(hid_t group, const char *name, const H5L_info_t *link, void *to) {
    if (link->type != H5L_TYPE_HARD || H5Aexists_by_name(group, name, "dtype", H5P_DEFAULT) <= 0) return 0;
    texts_add(to, must_printf("/inputs/%s", name));
    return 0;
}

struct texts results_file_inputs(const struct results_file *file) {
    FENCE(file->path);
    struct texts paths = {0};
    OWNED_ID hid_t id = open_object(file, "/inputs");
    if (id >= 0) h5_visit(id, H5_ITER_INC, add_input, NULL, &paths);
    return paths;
}

/* Reads a vector of `count` doubles into `to`; false: there is no vector of that length. */
static bool read_vector(const struct results_file *file, const char *path, int count, double *to) {
    OWNED_ID hid_t id = open_object(file, path);
    if (id < 0) return false;
    OWNED_ID hid_t space = H5Dget_space(id);
    return H5Sget_simple_extent_npoints(space) == count &&
           H5Dread(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) >= 0;
}

/* The number of elements of a data set; 0: there is no such data set. */
static int vector_length(const struct results_file *file, const char *path) {
    OWNED_ID hid_t id = open_object(file, path);
    if (id < 0) return 0;
    OWNED_ID hid_t space = H5Dget_space(id);
    hssize_t length = H5Sget_simple_extent_npoints(space);
    return length > 0 && length < INT32_MAX ? (int)length : 0;
}

/* Reads the samples of run number `run` in /samples, or with `run` -1 those of the only run in a part. None, if the
 * file has no times. STATUS_IO: the times cannot be read. Unknown conditions are NaN or 0. */
static enum status read_samples(const struct results_file *file, int run, struct samples *samples,
                                struct error *error) {
    char path[SAMPLE_KINDS][64];
    for (int i = 0; i < SAMPLE_KINDS; i++)
        if (run < 0)
            snprintf(path[i], sizeof path[i], "/%s", sample_kinds[i].in_part);
        else
            snprintf(path[i], sizeof path[i], "/samples/%d%s", run, sample_kinds[i].suffix);
    int count = vector_length(file, path[SAMPLE_SECONDS]);
    if (count == 0) return STATUS_OK;
    OWNED double *numbers = must_malloc((size_t)count * SAMPLE_KINDS * sizeof *numbers);
    double *values[SAMPLE_KINDS];
    bool known[SAMPLE_KINDS];
    for (int i = 0; i < SAMPLE_KINDS; i++) {
        values[i] = numbers + (size_t)i * (size_t)count;
        known[i] = read_vector(file, path[i], count, values[i]);
        if (i == SAMPLE_SECONDS && !known[SAMPLE_SECONDS])
            return fail(error, STATUS_IO, "%s: %s cannot be read: %s", file->path, path[SAMPLE_SECONDS],
                        h5_error_text());
    }
    for (int i = 0; i < count; i++) {
        struct sample_conditions conditions = {
            .clock_mhz = known[SAMPLE_CLOCK_MHZ] ? (float)values[SAMPLE_CLOCK_MHZ][i] : NAN,
            .power_w = known[SAMPLE_POWER_W] ? (float)values[SAMPLE_POWER_W][i] : NAN,
            .temperature_c = known[SAMPLE_TEMPERATURE_C] ? (float)values[SAMPLE_TEMPERATURE_C][i] : NAN,
            .throttle = known[SAMPLE_MARKS] ? (unsigned)values[SAMPLE_MARKS][i] & (MARK_OUTLIER - 1) : 0,
            .busy = known[SAMPLE_MARKS] && ((unsigned)values[SAMPLE_MARKS][i] & MARK_BUSY),
            .probe_s = NAN,
        };
        samples_append(samples, values[SAMPLE_SECONDS][i], &conditions,
                       known[SAMPLE_TURN] ? (int)values[SAMPLE_TURN][i] : i);
    }
    return STATUS_OK;
}

enum status results_file_samples(const struct results_file *file, const struct result_row *row, struct samples *samples,
                                 struct error *error) {
    FENCE(file->path);
    *samples = (struct samples){.count = 0};
    if (!file->parts) return read_samples(file, row->run, samples, error);
    int at = 0; /* `row` may be a copy */
    while (at < file->count - 1 && file->rows[at].run != row->run) at++;
    OWNED_ID hid_t id = h5_open_unlocked(file->parts[at]);
    return read_samples(&(struct results_file){.path = file->path, .id = id}, -1, samples, error);
}

/* Why there is no readable array of numbers at `path`: "/outputs/x in out.h5 is missing..."; NULL: there is one. The
 * caller frees. */
static char *why_missing(const struct results_file *file, const char *path) {
    OWNED_ID hid_t id = open_object(file, path);
    OWNED_ID hid_t type = id >= 0 && H5Iget_type(id) == H5I_DATASET ? H5Dget_type(id) : H5I_INVALID_HID;
    bool is_numeric = type >= 0 && (H5Tget_class(type) == H5T_INTEGER || H5Tget_class(type) == H5T_FLOAT);
    OWNED char *absent = is_numeric && H5Aexists(id, LINK_TO_FILE) > 0 ? h5_absent_source(id, file->path) : NULL;
    return absent        ? must_printf("%s in %s shows %s", path, file->path, absent)
           : !is_numeric ? must_printf("%s in %s is missing or not an array of numbers", path, file->path)
                         : NULL;
}

static bool is_stored(const struct results_file *file, const char *path) {
    OWNED char *why = why_missing(file, path);
    return !why;
}

/* The path of a row's output under its variant. The caller frees. */
static char *variant_path(const struct result_row *row) {
    OWNED char *variants = result_path_of("variants", row->parameters, row->operation);
    return must_printf("%s/%s", variants, row->variant);
}

/* Which outputs of a row should be stored. */
static struct stored_outputs expected_of(const struct results_file *file, const struct result_row *row) {
    return file->expected ? file->expected[row - file->rows] : (struct stored_outputs){false, false};
}

/* An output is stored under its variant (`store: all`), or once for the operation, which names the variant that wrote
 * it or, in files that do not, is of the row that `expected` says. */
char *results_file_output(const struct results_file *file, const struct result_row *row) {
    FENCE(file->path);
    struct stored_outputs expected = expected_of(file, row);
    OWNED char *variant_output = variant_path(row);
    OWNED char *operation_output = result_path_of("outputs", row->parameters, row->operation);
    if (is_stored(file, variant_output)) return disown(&variant_output);
    if (expected.variant) return NULL;
    OWNED char *by = results_file_text(file, operation_output, "variant");
    bool is_of_row = by ? strcmp(by, row->variant) == 0 : expected.result;
    return is_of_row && is_stored(file, operation_output) ? disown(&operation_output) : NULL;
}

char *results_file_missing(const struct results_file *file, const struct result_row *row) {
    FENCE(file->path);
    struct stored_outputs expected = expected_of(file, row);
    OWNED char *variant_output = variant_path(row);
    OWNED char *operation_output = result_path_of("outputs", row->parameters, row->operation);
    char *why = expected.variant ? why_missing(file, variant_output) : NULL;
    return why || !expected.result ? why : why_missing(file, operation_output);
}
