/* fuzz_input.c - any bytes as an HDF5 file that a job reads: each of its data sets is described and read, past HDF5 and
 * by it, or refused. */
#include "../../runner/storage/reader.h"
#include "../../runner/storage/untrusted/h5list.h"
#include "fuzz.h"

enum { MOST_ENTRIES = 8, MOST_BYTES = 1 << 20, MOST_CHUNK = 64 << 20 };

/* A box of the array that is no larger than MOST_BYTES, from its end. */
static struct box last_box(const struct array *array) {
    struct box box = box_whole(&array->shape);
    for (int axis = 0; axis < box.rank; axis++) {
        int64_t room = MOST_BYTES / (int64_t)dtype_size(array->dtype), others = box_elements(&box) / box.count[axis];
        int64_t count = room / others > 0 ? room / others : 1;
        if (count >= box.count[axis]) continue;
        box.start[axis] = box.count[axis] - count;
        box.count[axis] = count;
    }
    return box;
}

/* What a plan asks before anything is read: does the file hold what it claims, in chunks that find room? */
static bool is_read(const struct array *array) {
    struct error error = {0};
    double bytes = (double)dtype_size(array->stored);
    for (int i = 0; i < array->chunk.rank; i++) bytes *= (double)array->chunk.size[i];
    return shape_elements(&array->shape) > 0 && bytes <= MOST_CHUNK &&
           array_check_mostly_empty(array, &error) == STATUS_OK;
}

static void read_entry(const struct h5_entry *entry) {
    struct job_input input = {.name = "x", .label = "", .file = "in.h5", .file_as_written = "in.h5"};
    struct array array;
    struct error error = {0};
    input.dataset = entry->name;
    if (array_describe(&input, &array, &error) == STATUS_OK && is_read(&array)) {
        struct reader reader;
        struct box box = last_box(&array);
        void *values = malloc((size_t)box_elements(&box) * dtype_size(array.dtype));
        reader_init(&reader, &array);
        if (values && reader_open(&reader, &error) == STATUS_OK) reader_read(&reader, &box, values, NULL, &error);
        reader_free(&reader);
        free(values);
    }
    array_free(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_begin();
    fuzz_write("in.h5", data, size);
    struct h5_list list;
    struct error error = {0};
    h5_list("in.h5", "/", &list, &error);
    for (int i = 0; i < list.count && i < MOST_ENTRIES; i++) read_entry(&list.entries[i]);
    h5_list_free(&list);
    fuzz_end();
    return 0;
}
