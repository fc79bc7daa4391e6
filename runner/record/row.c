/* row.c - initializes rows from the plan; writes and reads them as a table in HDF5. */
#include "columns.h"

#include "../base/fail.h"
#include <math.h>
#include <string.h>

/* ---- names ---- */

const struct sample_kind sample_kinds[SAMPLE_KINDS] = {
    [SAMPLE_SECONDS] = {"seconds", ""},
    [SAMPLE_TURN] = {"turn", "_turn"},
    [SAMPLE_CLOCK_MHZ] = {"clock_mhz", "_clock_mhz"},
    [SAMPLE_POWER_W] = {"power_w", "_power_w"},
    [SAMPLE_TEMPERATURE_C] = {"temperature_c", "_temperature_c"},
    [SAMPLE_MARKS] = {"marks", "_marks"},
};

char *result_path_of(const char *root, const char *label, const char *name) {
    return must_printf("/%s/%s%s%s", root, label, *label ? "/" : "", name);
}

/* ---- initial rows ---- */

/* Copies a text into a field of `size` bytes and truncates it to fit. */
static void copy_text(char *to, size_t size, const char *from) {
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

bool result_row_done(const struct result_row *row) {
    return strcmp(row->status, "ok") == 0 || strcmp(row->status, "unchecked") == 0;
}

bool result_row_lost(const struct result_row *row) {
    return strcmp(row->status, "skipped") == 0 && strncmp(row->message, "search: ", strlen("search: ")) == 0;
}

bool result_row_is_cold(const struct result_row *row) {
    return strstr(row->flags, FLAG_COLD) != NULL;
}

int result_rows_own(struct result_row *rows, int count) {
    int moved = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].status[0]) rows[moved++] = rows[i];
    return moved;
}

/* Sets all real numbers to NaN, unknown. */
static void clear_numbers(struct result_row *row) {
    for (int i = 0; i < fixed_column_count; i++)
        if (fixed_columns[i].kind == COLUMN_REAL) *(double *)(void *)((char *)row + fixed_columns[i].offset) = NAN;
}

void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    memset(row, 0, sizeof *row);
    row->run = run->number;
    copy_text(row->operation, sizeof row->operation, task->operation->id);
    copy_text(row->op, sizeof row->op, operations[geometry->op]->name);
    copy_text(row->variant, sizeof row->variant, run->label);
    copy_text(row->parameters, sizeof row->parameters, task->operation->label);
    const char *absent = run->device == DEVICE_CUDA ? "cuda" : "cpu";
    copy_text(row->device, sizeof row->device, plan->present[run->device] ? plan->facts[run->device].id : absent);
    copy_text(row->dtype, sizeof row->dtype, dtype_name(geometry->in[0].dtype));
    copy_text(row->shape, sizeof row->shape, geometry->shape_text);
    clear_numbers(row);
    if (plan->present[run->device]) {
        copy_text(row->device_name, sizeof row->device_name, plan->facts[run->device].name);
        row->threads = run->threads ? run->threads : plan->facts[run->device].host_threads;
    }
    if (task->operation->run.timeout_s < INFINITY) row->timeout_s = task->operation->run.timeout_s;
    row->flops = geometry->flops;
    row->bytes = geometry->bytes;
}

/* ---- times ---- */

void result_row_times(struct result_row *row, const struct samples *samples) {
    struct statistics statistics = samples_statistics(samples);
    row->repeats = samples->count;
    row->kernel_median_s = statistics.median;
    row->kernel_min_s = statistics.min;
    row->kernel_max_s = statistics.max;
    row->kernel_mad_s = statistics.mad;
    samples_interval(samples, &row->kernel_ci_low_s, &row->kernel_ci_high_s);
    row->gflops = row->flops / statistics.median * 1e-9;
    row->gbytes_per_s = row->bytes / statistics.median * 1e-9;
}

void result_row_bound(struct result_row *row, const struct kernel *kernel, const struct geometry *geometry,
                      const struct device_limits *limits) {
    const char *by;
    row->bound_s = limits_bound(limits, kernel, geometry, &by);
    row->percent_of_bound = 100 * row->bound_s / row->kernel_median_s;
    snprintf(row->bound_by, sizeof row->bound_by, "%s", by);
}

/* ---- devices of the rows ---- */

/* Lists the devices, with numbers of threads, on which the runs on one kind of device were measured: "; H200 with 16
 * threads; H200 with 8 threads; ". Runs whose variant sets the threads are left out. *distinct: how many are listed.
 * The caller frees. */
static char *list_conditions(const struct result_row *rows, int count, bool on_cpu, int *distinct) {
    char *list = must_strdup("; ");
    *distinct = 0;
    for (int i = 0; i < count; i++) {
        bool chosen = strstr(rows[i].variant, "," JOB_THREADS "=") != NULL; /* the job chooses the threads */
        if (!result_row_done(&rows[i]) || chosen || (strcmp(rows[i].device, "cpu") == 0) != on_cpu) continue;
        OWNED char *entry = must_printf("; %s with %d thread%s; ", rows[i].device_name, rows[i].threads,
                                        rows[i].threads == 1 ? "" : "s");
        if (!strstr(list, entry)) {
            must_append(&list, "%s", entry + 2);
            *distinct += 1;
        }
    }
    return list;
}

char *result_mixed_conditions(const struct result_row *rows, int count) {
    char *mixed = NULL;
    for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
        int distinct;
        OWNED char *list = list_conditions(rows, count, on_cpu, &distinct);
        if (distinct > 1) {
            if (!mixed) mixed = must_strdup("");
            /* The list without the "; " at its beginning and end. */
            must_append(&mixed, "%s%.*s", *mixed ? "; " : "", (int)strlen(list) - 4, list + 2);
        }
    }
    return mixed;
}

/* ---- in HDF5 ---- */

/* The HDF5 type of a column; strings have a fixed length, so that PyTables can read them. The caller closes it. */
static hid_t column_type(const struct column *column) {
    if (column->kind == COLUMN_INT32) return H5Tcopy(H5T_NATIVE_INT32);
    if (column->kind == COLUMN_INT64) return H5Tcopy(H5T_NATIVE_INT64);
    if (column->kind == COLUMN_REAL) return H5Tcopy(H5T_NATIVE_DOUBLE);
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, column->size);
    H5Tset_cset(type, H5T_CSET_UTF8);
    H5Tset_strpad(type, H5T_STR_NULLTERM);
    return type;
}

static size_t packed_bytes(const struct column *columns, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += columns[i].size;
    return bytes;
}

/* The compound type of a row: packed, as it is stored, or as the compiler lays out struct result_row (fixed columns
 * only). */
static hid_t row_type(const struct column *columns, int count, bool packed) {
    size_t at = 0;
    hid_t type = H5Tcreate(H5T_COMPOUND, packed ? packed_bytes(columns, count) : sizeof(struct result_row));
    for (int i = 0; i < count; at += columns[i++].size) {
        OWNED_ID hid_t member = column_type(&columns[i]);
        H5Tinsert(type, columns[i].name, packed ? at : columns[i].offset, member);
    }
    return type;
}

/* Stores a value in the packed row at `to`, whose texts are zeroed. */
static void pack_cell(const struct column *column, const struct column_value *cell, char *to) {
    double real = cell->kind == COLUMN_INT64 ? (double)cell->integer : cell->real;
    int32_t small = (int32_t)cell->integer;
    switch (column->kind) {
    case COLUMN_TEXT: memcpy(to, cell->text, cell->length); break;
    case COLUMN_INT32: memcpy(to, &small, sizeof small); break;
    case COLUMN_INT64: memcpy(to, &cell->integer, sizeof cell->integer); break;
    case COLUMN_REAL: memcpy(to, &real, sizeof real); break;
    }
}

/* Packs the rows as they are stored; the caller frees. If HDF5 packed them, searching for the conversion at each write
 * would take most of the time. */
static char *pack_rows(const struct column *columns, int column_count, const struct result_row *rows, int count) {
    size_t bytes = (size_t)count * packed_bytes(columns, column_count);
    char *packed = must_zeroed(bytes), *to = packed; /* zeros behind the end of texts */
    for (int r = 0; r < count; r++)
        for (int i = 0; i < column_count; to += columns[i++].size) {
            struct column_value cell = column_cell(&columns[i], &rows[r], r);
            pack_cell(&columns[i], &cell, to);
        }
    return packed;
}

enum { CHUNK_ROWS = 256 /* most rows of a chunk */ };

/* Creates the table `name` with these columns of the rows. */
static enum status write_table(hid_t file, const char *name, const struct column *columns, int column_count,
                               const struct result_row *rows, int count, struct error *error) {
    OWNED char *packed = pack_rows(columns, column_count, rows, count);
    hsize_t size = (hsize_t)count, unlimited = H5S_UNLIMITED;
    hsize_t chunk = count > CHUNK_ROWS ? CHUNK_ROWS : count > 0 ? (hsize_t)count : 1;
    OWNED_ID hid_t type = row_type(columns, column_count, true), creation = h5_creation(H5P_DATASET_CREATE);
    OWNED_ID hid_t space = H5Screate_simple(1, &size, &unlimited);
    H5Pset_chunk(creation, 1, &chunk); /* PyTables needs chunked tables */
    OWNED_ID hid_t table = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (table < 0 || H5Dwrite(table, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, packed) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Dwrite", h5_error_text());
    return STATUS_OK;
}

enum status result_write_row(hid_t file, const struct result_row *row, struct error *error) {
    return write_table(file, "runs", fixed_columns, fixed_column_count, row, 1, error);
}

enum status result_write_rows(hid_t file, const char *name, const struct result_row *rows, int count,
                              struct error *error) {
    FREED_BY(columns_free) struct columns columns = columns_of(rows, count);
    return write_table(file, name, columns.items, columns.count, rows, count, error);
}

enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error) {
    *rows = NULL;
    *count = 0;
    OWNED_ID hid_t table =
        H5Lexists(file, "runs", H5P_DEFAULT) > 0 ? H5Dopen2(file, "runs", H5P_DEFAULT) : H5I_INVALID_HID;
    if (table < 0) return fail(error, STATUS_USAGE, "%s: has no table /runs", path);
    OWNED_ID hid_t space = H5Dget_space(table);
    OWNED_ID hid_t memory = row_type(fixed_columns, fixed_column_count, false);
    hssize_t size = H5Sget_simple_extent_npoints(space);
    if (size < 0 || size > INT32_MAX)
        return fail(error, STATUS_USAGE, "%s: the table /runs is damaged: its number of rows is not valid", path);
    OWNED struct result_row *read = must_zeroed((unsigned long)size * sizeof *read + 1);
    /* Older files have fewer columns: H5Dread leaves those fields unchanged. It ignores columns that are unknown
     * here. */
    for (hssize_t r = 0; r < size; r++) clear_numbers(&read[r]);
    if (H5Dread(table, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) < 0)
        return fail(error, STATUS_USAGE, "%s: /runs cannot be read: %s", path, h5_error_text());
    for (hssize_t r = 0; r < size; r++) /* texts in another program's file may lack a final NUL */
        for (int i = 0; i < fixed_column_count; i++)
            if (fixed_columns[i].kind == COLUMN_TEXT)
                ((char *)&read[r])[fixed_columns[i].offset + fixed_columns[i].size - 1] = '\0';
    *rows = disown(&read);
    *count = (int)size;
    return STATUS_OK;
}
