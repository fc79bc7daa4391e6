/* result_rows.c - the rows of runs: begun from the plan; in HDF5, CSV and JSON. */
#include "result_parts.h"

#include "../base/fail.h"
#include "../base/json.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a row to begin with ---- */

/* Copies a text and cuts it to `size` bytes: a column has a fixed width. */
static void copy(char *to, size_t size, const char *from) {
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

bool result_row_done(const struct result_row *row) {
    return strcmp(row->status, "ok") == 0 || strcmp(row->status, "unchecked") == 0;
}

/* Unknown numbers are NaN. */
static void forget_numbers(struct result_row *row) {
    double *const unknown[] = {
        &row->kernel_median_s, &row->kernel_min_s,
        &row->kernel_max_s,    &row->kernel_mad_s,
        &row->read_s,          &row->h2d_s,
        &row->d2h_s,           &row->write_s,
        &row->total_s,         &row->gflops,
        &row->gbytes_per_s,    &row->error,
        &row->tolerance,       &row->sm_clock_mhz,
        &row->kernel_ci_low_s, &row->kernel_ci_high_s,
        &row->bound_s,         &row->percent_of_bound,
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) *unknown[i] = NAN;
}

void result_row_init(struct result_row *row, const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct geometry *geometry = &task->geometry;
    memset(row, 0, sizeof *row);
    row->run = run->number;
    copy(row->operation, sizeof row->operation, task->operation->id);
    copy(row->op, sizeof row->op, operations[geometry->op]->name);
    copy(row->variant, sizeof row->variant, run->label);
    copy(row->parameters, sizeof row->parameters, task->operation->label);
    const char *absent = run->device == DEVICE_CUDA ? "cuda" : "cpu";
    copy(row->device, sizeof row->device, plan->present[run->device] ? plan->facts[run->device].id : absent);
    copy(row->dtype, sizeof row->dtype, dtype_name(geometry->in[0].dtype));
    copy(row->shape, sizeof row->shape, geometry->shape_text);
    forget_numbers(row);
    if (plan->present[run->device]) {
        copy(row->device_name, sizeof row->device_name, plan->facts[run->device].name);
        row->threads = plan->facts[run->device].host_threads;
    }
    row->flops = geometry->flops;
    row->bytes = geometry->bytes;
}

/* ---- columns: the one list for HDF5, CSV and JSON ---- */

enum column_kind { COLUMN_TEXT, COLUMN_INTEGER, COLUMN_REAL };

static const struct column {
    const char *name;
    enum column_kind kind;
    size_t offset, size;
} columns[] = {
#define COLUMN(name, kind)                                                                                             \
    { #name, kind, offsetof(struct result_row, name), sizeof((struct result_row *)0)->name }
    COLUMN(run, COLUMN_INTEGER),
    COLUMN(operation, COLUMN_TEXT),
    COLUMN(op, COLUMN_TEXT),
    COLUMN(variant, COLUMN_TEXT),
    COLUMN(parameters, COLUMN_TEXT),
    COLUMN(device, COLUMN_TEXT),
    COLUMN(dtype, COLUMN_TEXT),
    COLUMN(shape, COLUMN_TEXT),
    COLUMN(status, COLUMN_TEXT),
    COLUMN(repeats, COLUMN_INTEGER),
    COLUMN(kernel_median_s, COLUMN_REAL),
    COLUMN(kernel_min_s, COLUMN_REAL),
    COLUMN(kernel_max_s, COLUMN_REAL),
    COLUMN(kernel_mad_s, COLUMN_REAL),
    COLUMN(kernel_ci_low_s, COLUMN_REAL),
    COLUMN(kernel_ci_high_s, COLUMN_REAL),
    COLUMN(read_s, COLUMN_REAL),
    COLUMN(h2d_s, COLUMN_REAL),
    COLUMN(d2h_s, COLUMN_REAL),
    COLUMN(write_s, COLUMN_REAL),
    COLUMN(total_s, COLUMN_REAL),
    COLUMN(flops, COLUMN_REAL),
    COLUMN(bytes, COLUMN_REAL),
    COLUMN(gflops, COLUMN_REAL),
    COLUMN(gbytes_per_s, COLUMN_REAL),
    COLUMN(bound_s, COLUMN_REAL),
    COLUMN(bound_by, COLUMN_TEXT),
    COLUMN(percent_of_bound, COLUMN_REAL),
    COLUMN(error, COLUMN_REAL),
    COLUMN(tolerance, COLUMN_REAL),
    COLUMN(verify, COLUMN_TEXT),
    COLUMN(flags, COLUMN_TEXT),
    COLUMN(device_name, COLUMN_TEXT),
    COLUMN(threads, COLUMN_INTEGER),
    COLUMN(sm_clock_mhz, COLUMN_REAL),
    COLUMN(message, COLUMN_TEXT),
#undef COLUMN
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const char *text_of(const struct result_row *row, const struct column *column) {
    return (const char *)row + column->offset;
}

static int32_t integer_of(const struct result_row *row, const struct column *column) {
    return *(const int32_t *)(const void *)((const char *)row + column->offset);
}

static double real_of(const struct result_row *row, const struct column *column) {
    return *(const double *)(const void *)((const char *)row + column->offset);
}

/* The length of a text of at most `size` bytes, without a last UTF-8 character that was cut. */
static size_t whole_length(const char *text, size_t size) {
    size_t length = strnlen(text, size - 1), last = length;
    while (last > 0 && ((unsigned char)text[last - 1] & 0xC0) == 0x80) last--;
    if (last == 0) return length;
    unsigned char lead = (unsigned char)text[last - 1];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return length - last + 1 < wanted ? last - 1 : length;
}

/* ---- what the rows were measured on ---- */

/* "; H200 with 16 threads; H200 with 8 threads; ": what the runs on one kind of device were measured on, *distinct
 * entries. The caller frees. */
static char *list_conditions(const struct result_row *rows, int count, bool on_cpu, int *distinct) {
    char *list = must_strdup("; ");
    *distinct = 0;
    for (int i = 0; i < count; i++) {
        if (!result_row_done(&rows[i]) || (strcmp(rows[i].device, "cpu") == 0) != on_cpu) continue;
        char *entry = must_printf("; %s with %d thread%s; ", rows[i].device_name, rows[i].threads,
                                  rows[i].threads == 1 ? "" : "s");
        if (!strstr(list, entry)) {
            char *longer = must_printf("%s%s", list, entry + 2);
            free(list);
            list = longer;
            *distinct += 1;
        }
        free(entry);
    }
    return list;
}

char *result_mixed_conditions(const struct result_row *rows, int count) {
    char *mixed = NULL;
    for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
        int distinct;
        char *list = list_conditions(rows, count, on_cpu, &distinct);
        if (distinct > 1) {
            char *both =
                must_printf("%s%s%.*s", mixed ? mixed : "", mixed ? "; " : "", (int)strlen(list) - 4, list + 2);
            free(mixed);
            mixed = both;
        }
        free(list);
    }
    return mixed;
}

/* ---- in HDF5 ---- */

/* Bytes of a packed row. */
static size_t row_bytes(void) {
    size_t bytes = 0;
    for (int i = 0; i < COLUMNS; i++) bytes += columns[i].size;
    return bytes;
}

/* The compound type of a row: packed, as it is stored, or as the compiler lays it out. Strings have a fixed length, so
 * that PyTables can read them. */
static hid_t row_type(bool packed) {
    size_t at = 0;
    hid_t type = H5Tcreate(H5T_COMPOUND, packed ? row_bytes() : sizeof(struct result_row));
    for (int i = 0; i < COLUMNS; i++) {
        const struct column *column = &columns[i];
        hid_t member = H5Tcopy(column->kind == COLUMN_TEXT      ? H5T_C_S1
                               : column->kind == COLUMN_INTEGER ? H5T_NATIVE_INT32
                                                                : H5T_NATIVE_DOUBLE);
        if (column->kind == COLUMN_TEXT) {
            H5Tset_size(member, column->size);
            H5Tset_cset(member, H5T_CSET_UTF8);
            H5Tset_strpad(member, H5T_STR_NULLTERM);
        }
        H5Tinsert(type, column->name, packed ? at : column->offset, member);
        H5Tclose(member);
        at += column->size;
    }
    return type;
}

/* Packs the rows. HDF5 would look for a conversion at each write, which takes it longer than everything else. */
static char *pack_rows(const struct result_row *rows, int count) {
    size_t bytes = (size_t)count * row_bytes();
    char *packed = must_malloc(bytes + 1), *to = packed;
    memset(packed, 0, bytes); /* no stale bytes after a text's end */
    for (int r = 0; r < count; r++)
        for (int i = 0; i < COLUMNS; to += columns[i++].size) {
            const char *from = text_of(&rows[r], &columns[i]);
            memcpy(to, from, columns[i].kind == COLUMN_TEXT ? whole_length(from, columns[i].size) : columns[i].size);
        }
    return packed;
}

enum status result_write_rows(hid_t file, const struct result_row *rows, int count, struct error *error) {
    char *packed = pack_rows(rows, count);
    hsize_t size = (hsize_t)count, unlimited = H5S_UNLIMITED,
            chunk = count > 256 ? 256
                    : count > 0 ? (hsize_t)count
                                : 1;
    hid_t type = row_type(true), creation = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(1, &size, &unlimited);
    H5Pset_chunk(creation, 1, &chunk); /* PyTables needs chunked tables */
    H5Pset_attr_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    hid_t table = H5Dcreate2(file, "runs", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    enum status status = STATUS_OK;
    if (table < 0 || H5Dwrite(table, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, packed) < 0)
        status = FAIL_CALL(error, STATUS_IO, "H5Dwrite(/runs)", h5_words());
    if (table >= 0) H5Dclose(table);
    H5Sclose(space);
    H5Pclose(creation);
    H5Tclose(type);
    free(packed);
    return status;
}

enum status result_load_rows(hid_t file, const char *path, struct result_row **rows, int *count, struct error *error) {
    *rows = NULL;
    *count = 0;
    hid_t table = H5Lexists(file, "runs", H5P_DEFAULT) > 0 ? H5Dopen2(file, "runs", H5P_DEFAULT) : H5I_INVALID_HID;
    if (table < 0) return fail(error, STATUS_USAGE, "%s: has no table /runs", path);
    hid_t space = H5Dget_space(table), memory = row_type(false);
    hssize_t size = H5Sget_simple_extent_npoints(space);
    enum status status = STATUS_OK;
    if (size < 0 || size > INT32_MAX) size = 0;
    *rows = must_malloc((unsigned long)size * sizeof **rows + 1);
    memset(*rows, 0, (size_t)size * sizeof **rows);
    /* H5Dread leaves a column that the file lacks as it is; older files have fewer columns. */
    for (hssize_t r = 0; r < size; r++) forget_numbers(&(*rows)[r]);
    if (H5Dread(table, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *rows) < 0)
        status = fail(error, STATUS_USAGE, "%s: /runs cannot be read: %s", path, h5_words());
    for (hssize_t r = 0; r < size; r++) /* texts in another program's file may lack a final NUL */
        for (int i = 0; i < COLUMNS; i++)
            if (columns[i].kind == COLUMN_TEXT) ((char *)&(*rows)[r])[columns[i].offset + columns[i].size - 1] = '\0';
    H5Tclose(memory);
    H5Sclose(space);
    H5Dclose(table);
    if (status) {
        free(*rows);
        *rows = NULL;
    } else {
        *count = (int)size;
    }
    return status;
}

/* ---- CSV and JSON ---- */

/* Prints the fewest digits that read back as the same number. */
static void print_real(double value, FILE *to) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) != value)) break;
    }
    fputs(text, to);
}

static void print_csv_text(const char *text, size_t length, FILE *to) {
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote) putc('"', to);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"') putc('"', to);
        putc(text[i], to);
    }
    if (quote) putc('"', to);
}

void result_print_csv(const struct result_row *rows, int count, FILE *to) {
    for (int i = 0; i < COLUMNS; i++) fprintf(to, "%s%s", i ? "," : "", columns[i].name);
    putc('\n', to);
    for (int r = 0; r < count; r++) {
        for (int i = 0; i < COLUMNS; i++) {
            const char *text = text_of(&rows[r], &columns[i]);
            if (i) putc(',', to);
            switch (columns[i].kind) {
            case COLUMN_TEXT: print_csv_text(text, whole_length(text, columns[i].size), to); break;
            case COLUMN_INTEGER: fprintf(to, "%d", integer_of(&rows[r], &columns[i])); break;
            case COLUMN_REAL:
                if (!isnan(real_of(&rows[r], &columns[i]))) print_real(real_of(&rows[r], &columns[i]), to);
                break;
            }
        }
        putc('\n', to);
    }
}

void result_print_json(const struct result_row *rows, int count, FILE *to) {
    putc('[', to);
    for (int r = 0; r < count; r++) {
        fprintf(to, "%s\n  {", r ? "," : "");
        for (int i = 0; i < COLUMNS; i++) {
            const char *text = text_of(&rows[r], &columns[i]);
            fprintf(to, "%s\"%s\": ", i ? ", " : "", columns[i].name);
            switch (columns[i].kind) {
            case COLUMN_TEXT: json_write_string(to, text, whole_length(text, columns[i].size)); break;
            case COLUMN_INTEGER: fprintf(to, "%d", integer_of(&rows[r], &columns[i])); break;
            case COLUMN_REAL: /* JSON has neither NaN nor infinity */
                if (isfinite(real_of(&rows[r], &columns[i])))
                    print_real(real_of(&rows[r], &columns[i]), to);
                else
                    fputs("null", to);
                break;
            }
        }
        putc('}', to);
    }
    fputs(count ? "\n]\n" : "]\n", to);
}
