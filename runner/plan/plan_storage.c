/* plan_storage.c - describes how a run's operands are stored in their files, how fast they are read and written, and
 * how large the buffers are that hold pieces of them. */
#include "plan_parts.h"

#include "../storage/operand.h"
#include <math.h>

/* Rates of generating, decoding and encoding, in decoded bytes per second and core. */
#define GENERATE_RATE 0.5e9 /* Philox */
#define INFLATE_RATE  0.4e9
#define DEFLATE_RATE  0.1e9
#define LZF_RATE      0.4e9 /* either way */
#define ZSTD_RATE     0.3e9 /* compression, levels up to 5 */
#define UNZSTD_RATE   0.8e9
#define CHECKSUM_RATE 1.5e9 /* fletcher32, reading or writing */
#define HDF5_RATE     2.5e9 /* H5Dread, on any number of cores */

/* Seconds of overhead for each chunk: one thread looks up its address in HDF5 and any thread reads it; or HDF5 reads
 * it. */
#define FIND_CHUNK_S 2.0e-6
#define READ_CHUNK_S 2.0e-6
#define HDF5_CHUNK_S 5.0e-6

/* The rate of decoding, in decoded bytes per second and core; of encoding likewise. */
static double decode_rate(enum job_compression compression) {
    const double rates[] = {[COMPRESSION_NONE] = CHECKSUM_RATE,
                            [COMPRESSION_GZIP] = INFLATE_RATE,
                            [COMPRESSION_LZF] = LZF_RATE,
                            [COMPRESSION_ZSTD] = UNZSTD_RATE};
    return rates[compression];
}

static double encode_rate(enum job_compression compression) {
    const double rates[] = {[COMPRESSION_NONE] = CHECKSUM_RATE,
                            [COMPRESSION_GZIP] = DEFLATE_RATE,
                            [COMPRESSION_LZF] = LZF_RATE,
                            [COMPRESSION_ZSTD] = ZSTD_RATE};
    return rates[compression];
}

struct h5_layout plan_layout(const struct run_options *options) {
    return (struct h5_layout){options->chunks, options->compression, options->level, options->shuffle,
                              options->fletcher32};
}

double plan_read_rate(const struct array *input, const struct device_facts *facts) {
    if (input->from_job->random) return facts->host_threads * GENERATE_RATE;
    double rate = !input->direct    ? (input->filtered ? INFLATE_RATE : HDF5_RATE)
                  : input->filtered ? facts->host_threads * INFLATE_RATE
                                    : facts->read_bytes_per_s;
    if (input->chunk.rank > 0) {
        double chunk_s = input->direct ? FIND_CHUNK_S + READ_CHUNK_S / facts->host_threads : HDF5_CHUNK_S;
        double chunk_bytes = (double)shape_elements(&input->chunk) * (double)dtype_size(input->stored);
        rate = 1 / (1 / rate + chunk_s / chunk_bytes);
    }
    if (!view_is_box(&input->view)) rate /= view_excess(&input->view, &input->shape, &input->chunk);
    return rate * (double)dtype_size(input->dtype) / (double)dtype_size(input->stored);
}

/* The size of an element of type `from` over that of type `to`. */
static double size_ratio(enum dtype from, enum dtype to) {
    return (double)dtype_size(from) / (double)dtype_size(to);
}

/* Bytes per second of operands that are read piece by piece and rearranged (storage/operand.h); two cores do it. */
#define REARRANGE_RATE 1.0e9

#define MAX_HELD_CHUNK (INT64_C(1) << 21) /* elements; larger chunks of merged axes are read in parts */

/* Converts the chunk of an array to the operand's axes, some of which may be merged. Drops chunks that are too large to
 * be held, and lowers the rate of operands that are rearranged. */
static void merge_chunks(const struct operand *operand, struct storage *storage) {
    storage->chunk = operand_grain(operand, &storage->chunk, NULL);
    if (storage->filtered) storage->grain = storage->chunk;
    if (!operand_is_plain(operand) && shape_elements(&storage->chunk) > MAX_HELD_CHUNK) storage->chunk.rank = 0;
    if (storage->chunk.rank == 0) storage->filtered = false;
    if (operand_is_rearranged(operand)) storage->bytes_per_s = 1 / (1 / storage->bytes_per_s + 1 / REARRANGE_RATE);
}

/* The count of readers stops here: with this many the cost of a shared copy is negligible, and a full count takes
 * quadratic time in a sweep of thousands of tasks over one input. */
#define MANY_READERS 64

/* The number of operands in the job's runs that one copy of array `index` serves, in the form of operand `as`. */
static int readers_of(const struct plan *plan, int index, const struct operand *as) {
    const struct array *array = &plan->arrays[index];
    int readers = 0;
    for (int t = array->first_reader; t <= array->last_reader && readers < MANY_READERS; t++) {
        const struct task *task = &plan->tasks[t];
        for (int i = 0; i < task->geometry.inputs; i++)
            if (task->in[i] == index && operands_alike(&task->geometry.in[i], as))
                readers += task->operation->variant_count;
    }
    return readers;
}

/* How an operand lies in its file, or is generated, and the rate at which it is read. */
static struct storage input_storage(const struct plan *plan, int index, const struct operand *operand,
                                    const struct device_facts *facts) {
    const struct array *array = &plan->arrays[index];
    struct storage storage = {.file_share = 1, .bytes_per_s = facts->read_bytes_per_s};
    storage.readers = readers_of(plan, index, operand);
    double cores = facts->host_threads;
    if (!array->from_job) { /* a result: read from its part unless it is still on the device */
        const struct task *producer = &plan->tasks[plan_producer(plan, index)];
        enum dtype stored = plan->arrays[producer->out].dtype;
        struct h5_layout layout = plan_layout(&producer->operation->run);
        storage.chunk = h5_chunk(stored, &array->shape, &layout);
        storage.file_share = size_ratio(stored, array->dtype);
        storage.filtered = storage.chunk.rank > 0 && h5_filtered(&layout);
        if (storage.filtered) storage.bytes_per_s = cores * decode_rate(layout.compression);
    } else {
        storage.generated = array->from_job->random;
        storage.chunk = view_grain(&array->view, &array->chunk);
        storage.filtered = array->filtered;
        storage.bytes_per_s = plan_read_rate(array, facts);
        if (!storage.generated) storage.file_share = size_ratio(array->stored, array->dtype);
    }
    storage.file_share *= size_ratio(array->dtype, operand->dtype);
    storage.bytes_per_s *= size_ratio(operand->dtype, array->dtype);
    merge_chunks(operand, &storage);
    return storage;
}

/* How a run's output lies in its part, and the rate at which it is written: infinite if it is not written. */
static struct storage output_storage(const struct plan *plan, const struct run *run, const struct device_facts *facts) {
    const struct task *task = &plan->tasks[run->task];
    if (!task->wanted && task->operation->run.verify == VERIFY_NONE) return (struct storage){.bytes_per_s = INFINITY};
    struct h5_layout layout = plan_layout(&task->operation->run);
    const struct operand *out = &task->geometry.out;
    struct shape shape = operand_array(out);
    enum dtype stored = plan->arrays[task->out].dtype;
    struct storage storage = {.chunk = h5_chunk(stored, &shape, &layout),
                              .file_share = size_ratio(stored, out->dtype),
                              .bytes_per_s = facts->write_bytes_per_s};
    storage.filtered = storage.chunk.rank > 0 && h5_filtered(&layout);
    double encoded = facts->host_threads * encode_rate(layout.compression);
    if (storage.filtered && encoded < storage.bytes_per_s) storage.bytes_per_s = encoded;
    storage.bytes_per_s /= storage.file_share;
    merge_chunks(out, &storage);
    return storage;
}

void plan_storages(const struct plan *plan, const struct run *run, struct tiling *tiling) {
    const struct task *task = &plan->tasks[run->task];
    const struct device_facts *facts = &plan->facts[run->device];
    for (int i = 0; i < task->geometry.inputs; i++)
        tiling->in_storage[i] = input_storage(plan, task->in[i], &task->geometry.in[i], facts);
    tiling->out_storage = output_storage(plan, run, facts);
}

struct grid plan_grid(const struct array *input, const struct operand *operand, const struct storage *storage) {
    struct grid grid = {.grain = storage->chunk};
    view_shift(&input->view, grid.shift);
    operand_grain(operand, &input->chunk, grid.shift);
    return grid;
}

int64_t plan_staging_elements(const struct storage *storage, int64_t element_bytes) {
    int64_t limit = STAGING_BYTES / element_bytes, chunk = storage->filtered ? shape_elements(&storage->chunk) : 1;
    return chunk > limit ? chunk : limit;
}

int64_t plan_staging_bytes(const struct storage *storage, int64_t element_bytes, int64_t tile_bytes) {
    int64_t bytes = plan_staging_elements(storage, element_bytes) * element_bytes;
    return tile_bytes < bytes ? tile_bytes : bytes;
}

int64_t plan_host_bytes(const struct geometry *geometry, const struct tiling *tiling) {
    int64_t up = 0, element_bytes = (int64_t)dtype_size(geometry->out.dtype);
    for (int i = 0; i < geometry->inputs; i++) {
        int64_t bytes =
            plan_staging_bytes(&tiling->in_storage[i], (int64_t)dtype_size(geometry->in[i].dtype), tiling->in_bytes[i]);
        if (bytes > up) up = bytes;
    }
    return STAGING_BUFFERS * (up + plan_staging_bytes(&tiling->out_storage, element_bytes, tiling->out_bytes));
}
