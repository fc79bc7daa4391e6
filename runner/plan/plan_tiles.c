/* plan_tiles.c - chooses the tiles of a run.
 *
 * Each loop is cut into a power of two of equal tiles. There are few such tilings (the product of four logarithms), so
 * all are tried. Those that exceed the memory are dropped; of the others the one with the least cost wins: its
 * predicted time plus TRAFFIC_WEIGHT of its busy time. The order of the loops decides how often an operand is loaded:
 *
 *     Steps run over b, m, n, k, with k fastest. An operand's box changes whenever one of the operand's own loops
 *     advances. So a box is loaded again after an outer loop has advanced that does not run along the operand.
 *
 *     matmul, C cut into M x N tiles, k into K panels:
 *         A (b,m,k) is loaded N times unless K = 1, B (b,k,n) M times.
 *
 * Three stages overlap step by step: input (reading and upload, which overlap piece by piece), kernels, and output
 * (download and writing, likewise). So a pass takes the input of the first step, then the slowest of the three stages,
 * then the last launch and the last output. Large tiles read less; small tiles fill the pipeline sooner. An input that
 * is a single tile stays on the device; if several runs read it, each run is charged only its share of the load. */
#include "plan_tiles.h"
#include "../../kernels/core/axes.h"
#include "../../kernels/core/cpu.h"
#include "../../kernels/map/before.h"

#include <math.h>
#include <string.h>

#define SMALL_BYTES     262144 /* operands of fewer bytes are one tile if it fits: trying others takes longer */
#define MAX_STEPS_LOG2  60     /* 2^60 steps, because they are counted in 64 bits */
#define STEP_SECONDS    20e-6  /* launching, copying and bookkeeping of one step */
#define SEGMENT_SECONDS 1.6e-6 /* reading or writing one contiguous segment of a file, on one core */
#define USUAL_THREADS   8      /* threads beyond this number do not read or write faster */
#define ALIGNMENT       256    /* bytes: of buffers in device memory */
#define PARTIAL_CHUNKS  4.0    /* times as slow, at least: each part of a filtered chunk decodes and encodes it all */
#define TRAFFIC_WEIGHT  0.2    /* weight of all busy time: of equally fast tilings the one with least traffic wins */

/* The least multiple of `to` that is no less than `value`; neither is negative. */
static int64_t round_up(int64_t value, int64_t to) {
    return (value + to - 1) / to * to;
}

/* The number of elements of an operand's tile. */
static int64_t operand_tile_elements(const struct operand *operand, const int64_t tile[LOOPS]) {
    int64_t elements = 1;
    for (int axis = 0; axis < operand->shape.rank; axis++) elements *= tile[operand->loop[axis]];
    return elements;
}

/* The number of times that tiles of the operand are loaded (or stored) in a pass. */
static int64_t operand_loads(const struct operand *operand, const int64_t tiles[LOOPS]) {
    int last = -1;
    for (int axis = 0; axis < operand->shape.rank; axis++) {
        int loop = (int)operand->loop[axis];
        if (tiles[loop] > 1 && loop > last) last = loop;
    }
    int64_t loads = 1;
    for (int loop = 0; loop <= last; loop++) loads *= tiles[loop];
    return loads;
}

/* The number of tiles into which an operand is cut; 1 if it is empty. */
static double tile_count(const struct operand *operand, const int64_t tiles[LOOPS]) {
    double count = 1;
    for (int axis = 0; axis < operand->shape.rank; axis++) count *= (double)tiles[operand->loop[axis]];
    return count > 0 ? count : 1;
}

static double operand_bytes(const struct operand *operand) {
    return (double)shape_elements(&operand->shape) * (double)dtype_size(operand->dtype);
}

/* The size of a tile along each axis of the operand's array. */
static struct shape tile_in_array(const struct operand *operand, const int64_t tile[LOOPS]) {
    const struct axes *axes = &operand->axes;
    struct shape size = {.rank = operand_array(operand).rank, .size = {1, 1, 1, 1, 1, 1, 1, 1}};
    for (int axis = 0; axis < size.rank && operand_is_plain(operand); axis++)
        size.size[axis] = tile[operand->loop[axis]];
    for (int group = axes->groups - 1, axis = axes->rank - 1; group >= 0; group--) {
        int64_t rest = tile[operand->loop[group]];
        for (int i = 0; i < axes->group[group]; i++, axis--) {
            int64_t all = axes->size[axis] > 0 ? axes->size[axis] : 1;
            if (axes->array_axis[axis] >= 0) size.size[axes->array_axis[axis]] = min_int64(rest, all);
            rest = ceil_div(rest, all);
        }
    }
    return size;
}

/* The number of contiguous segments that a tile has in its array. */
static int64_t operand_segments(const struct operand *operand, const int64_t tile[LOOPS]) {
    const struct shape array = operand_array(operand), part = tile_in_array(operand, tile);
    int64_t segments = 1;
    bool uncut = true; /* all axes so far, from the last one, are not cut */
    for (int axis = array.rank - 1; axis >= 0; axis--) {
        if (!uncut) segments *= part.size[axis];
        uncut = uncut && part.size[axis] == array.size[axis];
    }
    return segments;
}

/* The average ratio of the bytes of the chunks that a tile touches to the tile's own bytes; 1 if tiles end at chunk
 * boundaries. */
static double chunk_excess(const struct operand *operand, const struct storage *storage, const int64_t tile[LOOPS]) {
    double excess = 1;
    for (int axis = 0; axis < storage->grain.rank; axis++) {
        int64_t count = tile[operand->loop[axis]], chunk = storage->grain.size[axis], size = operand->shape.size[axis];
        if (count == 0 || count >= size || count % chunk == 0) continue;
        excess *= fmin((double)round_up(size, chunk), (double)round_up(count, chunk) + (double)chunk) / (double)count;
    }
    return excess;
}

/* Is a tile one contiguous run of elements in row-major order? It is if no axis is cut after the first axis along
 * which the tile has several elements. A reduction over all axes needs such tiles. */
static bool tile_is_contiguous(const struct operand *operand, const int64_t tile[LOOPS]) {
    int axis = 0;
    while (axis < operand->shape.rank && tile[operand->loop[axis]] <= 1) axis++;
    for (axis++; axis < operand->shape.rank; axis++)
        if (tile[operand->loop[axis]] < operand->shape.size[axis]) return false;
    return true;
}

/* The bytes of a buffer for so many elements of `size` bytes: a multiple of ALIGNMENT, and not 0. */
static int64_t buffer_bytes(int64_t elements, size_t size) {
    int64_t bytes = round_up(elements * (int64_t)size, ALIGNMENT);
    return bytes > ALIGNMENT ? bytes : ALIGNMENT;
}

struct launch plan_launch_of(const struct geometry *geometry, const struct run *run, const int64_t count[LOOPS],
                             int multiprocessors) {
    struct launch launch;
    memset(&launch, 0, sizeof launch);
    struct tile tile = {{0}, {0}};
    memcpy(tile.count, count, sizeof tile.count);
    const void *const nowhere[MAX_INPUTS] = {NULL};
    operation_launch(geometry, &tile, true /* first */, true /* last */, nowhere, NULL, NULL, &launch);
    launch.kernel = run->kernel;
    memcpy(launch.choice, run->choice, sizeof launch.choice);
    launch.multiprocessors = multiprocessors;
    return launch;
}

struct launch plan_launch(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                          const struct tiling *tiling) {
    return plan_launch_of(geometry, run, tiling->tile, run->threads ? run->threads : facts->multiprocessors);
}

/* Computes steps, slots and bytes from tile, tiles and out_slots; it lowers out_slots to 1 if there is only one
 * store. */
static void measure_memory(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                           struct tiling *tiling) {
    const struct operand *out = &geometry->out;
    bool split = false;
    tiling->steps = 1;
    tiling->memory_bytes = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        tiling->steps *= tiling->tiles[loop];
        split = split || (geometry->reduces[loop] && tiling->tiles[loop] > 1);
    }
    for (int i = 0; i < geometry->inputs; i++) {
        const struct operand *in = &geometry->in[i];
        tiling->in_slots[i] = operand_loads(in, tiling->tiles) > 1 ? 2 : 1;
        tiling->in_bytes[i] = buffer_bytes(operand_tile_elements(in, tiling->tile), dtype_size(in->dtype));
        tiling->memory_bytes += tiling->in_slots[i] * tiling->in_bytes[i];
    }
    int64_t out_elements = operand_tile_elements(out, tiling->tile);
    if (operand_loads(out, tiling->tiles) <= 1) tiling->out_slots = 1;
    tiling->out_bytes = buffer_bytes(out_elements, dtype_size(out->dtype));
    bool partial = geometry->partial_size > 0 && (split || geometry->partial_always);
    tiling->partial_bytes = partial ? buffer_bytes(out_elements, geometry->partial_size) : 0;
    struct launch launch = plan_launch(geometry, facts, run, tiling);
    tiling->mapped_bytes = round_up(mapped_bytes(run->kernel, &launch), ALIGNMENT);
    tiling->workspace_bytes =
        round_up((int64_t)kernel_workspace(run->kernel, &launch), ALIGNMENT) + tiling->mapped_bytes;
    tiling->memory_bytes += tiling->out_slots * tiling->out_bytes + tiling->partial_bytes + tiling->workspace_bytes;
}

/* The factor by which arithmetic is slower with these tiles than at full speed; `speed`: the kernel's, relative to the
 * device's assumed rate. */
static double slowdown_of(const struct geometry *geometry, const struct device_facts *facts,
                          const struct tiling *tiling, double speed) {
    const struct operation *operation = operations[geometry->op];
    if (!operation->slowdown || facts->kind != DEVICE_CUDA) return 1;
    return operation->slowdown(tiling->tile, tiling->tiles, facts->multiprocessors, speed);
}

/* The cost of loading all inputs. */
struct loads {
    double bytes;        /* loaded in a pass */
    double read_s;       /* reading and generating them */
    double first_s;      /* loads of the first step, with the copies to the device */
    double device_bytes; /* read from device memory by launches */
    double shared_s;     /* the part of first_s that other runs share */
};

/* Predicts the loads; also sets the tiling's read_bytes and generate_s. */
static struct loads predict_loads(const struct geometry *geometry, const struct device_facts *facts, double copy_rate,
                                  struct tiling *tiling) {
    struct loads all = {0};
    double host_threads = facts->host_threads < USUAL_THREADS ? facts->host_threads : USUAL_THREADS;
    tiling->read_bytes = tiling->generate_s = 0;
    for (int i = 0; i < geometry->inputs; i++) {
        const struct operand *in = &geometry->in[i];
        double loads = (double)operand_loads(in, tiling->tiles);
        double tile_bytes = (double)operand_tile_elements(in, tiling->tile) * (double)dtype_size(in->dtype);
        double load_s =
            tile_bytes * chunk_excess(in, &tiling->in_storage[i], tiling->tile) / tiling->in_storage[i].bytes_per_s +
            (double)operand_segments(in, tiling->tile) * SEGMENT_SECONDS / host_threads;
        /* A filtered chunk that is too large to be held is decoded again for each staging buffer that it fills. */
        bool staged = facts->kind == DEVICE_CUDA && tiling->in_storage[i].grain.rank > tiling->in_storage[i].chunk.rank;
        if (staged) load_s *= fmax(1, tile_bytes / (double)STAGING_BYTES);
        double bytes = loads / tile_count(in, tiling->tiles) * operand_bytes(in);
        all.bytes += bytes;
        if (tiling->in_storage[i].generated)
            tiling->generate_s += loads * load_s;
        else
            tiling->read_bytes += bytes * tiling->in_storage[i].file_share;
        all.device_bytes += (double)tiling->steps * tile_bytes;
        all.read_s += loads * load_s;
        all.first_s += fmax(load_s, tile_bytes / copy_rate);
        if (loads == 1 && tiling->in_storage[i].readers > 1)
            all.shared_s += fmax(load_s, tile_bytes / copy_rate) * (1 - 1 / (double)tiling->in_storage[i].readers);
    }
    return all;
}

/* Predicts kernel_s and compute_s for launches that move `device_bytes` and store `stores` tiles of `out_tile` bytes,
 * on `devices` devices: by measured limits if they are known, else by assumed rates. */
static void predict_kernels(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                            double device_bytes, double stores, double out_tile, double devices,
                            struct tiling *tiling) {
    /* Additional traffic in device memory: a split reduction reads and writes its output; a workspace is written and
     * read. */
    double extra = ((double)tiling->steps > stores ? 2 * out_tile : 0) + 2 * (double)tiling->workspace_bytes;
    double extra_s = (double)tiling->steps * extra / facts->memory_bytes_per_s;
    double speed = run->kernel->speed > 0 ? run->kernel->speed : 1;
    double flops_s = geometry->flops / (speed * facts->flops_per_s[geometry->in[0].dtype]);
    double memory_s = device_bytes / facts->memory_bytes_per_s, slowdown = slowdown_of(geometry, facts, tiling, speed);
    double measured = NAN;
    if (facts->limits) {
        const struct launch launch = plan_launch(geometry, facts, run, tiling);
        double steps = fmax(1, (double)tiling->steps);
        measured = (double)tiling->steps * limits_seconds(facts->limits, &launch, geometry, 1 / steps);
    }
    tiling->unknown = facts->limits && isnan(measured);
    if (measured >= 0) flops_s = measured, memory_s = extra_s = 0, slowdown = 1;
    double power = run->threads ? (double)run->threads / facts->multiprocessors : devices; /* relative to one device */
    tiling->kernel_s = (fmax(flops_s * slowdown, memory_s) + extra_s) / power;
    tiling->compute_s = (fmax(flops_s, memory_s) + extra_s) / power + (double)tiling->steps * STEP_SECONDS;
}

/* Sets bound_s and bound_by to the busy time and the name of the slowest stage. */
static void find_slowest_stage(struct tiling *tiling) {
    const struct {
        const char *name;
        double seconds;
    } stages[] = {
        {"read", tiling->read_s}, {"copy", tiling->copy_s}, {"compute", tiling->compute_s}, {"write", tiling->write_s}};
    tiling->bound_s = -1;
    for (int i = 0; i < 4; i++)
        if (stages[i].seconds > tiling->bound_s) tiling->bound_s = stages[i].seconds, tiling->bound_by = stages[i].name;
}

void plan_predict(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                  struct tiling *tiling) {
    const struct operand *out = &geometry->out;
    double copy_rate = facts->copy_bytes_per_s;
    if (facts->limits && facts->limits->upload_bytes_per_s > 0)
        copy_rate = fmin(facts->limits->upload_bytes_per_s, facts->limits->download_bytes_per_s);
    const struct loads loads = predict_loads(geometry, facts, copy_rate, tiling);
    double stores = (double)operand_loads(out, tiling->tiles);
    double out_tile = (double)operand_tile_elements(out, tiling->tile) * (double)dtype_size(out->dtype);
    double bytes_out = operand_bytes(out);
    double excess = chunk_excess(out, &tiling->out_storage, tiling->tile);
    bool shared = out->shape.rank > 0 && (run->kernel->divisible || operations[geometry->op]->exact);
    double devices = facts->kind == DEVICE_CUDA && facts->team > 1 && shared ? facts->team : 1; /* stream/bands.h */
    double copy_in = loads.bytes / devices / copy_rate, copy_out = bytes_out / devices / copy_rate;
    predict_kernels(geometry, facts, run, loads.device_bytes + stores * out_tile, stores, out_tile, devices, tiling);
    tiling->read_s = loads.read_s;
    tiling->copy_s = fmax(copy_in, copy_out);
    tiling->write_s =
        bytes_out * (excess > 1 ? fmax(PARTIAL_CHUNKS, 2 * excess) : 1) / tiling->out_storage.bytes_per_s +
        stores * (double)operand_segments(out, tiling->tile) * SEGMENT_SECONDS;
    tiling->write_bytes = bytes_out * tiling->out_storage.file_share;
    if (isinf(tiling->out_storage.bytes_per_s))
        tiling->write_s = tiling->write_bytes = 0; /* the output is not stored */
    tiling->traffic_bytes = loads.bytes + bytes_out;

    double in_s = fmax(loads.read_s, copy_in), out_s = fmax(tiling->write_s, copy_out);
    double kernels = tiling->kernel_s + (double)tiling->steps * STEP_SECONDS;
    double last_launch = tiling->steps ? kernels / (double)tiling->steps : 0;
    double last_store = stores > 0 ? out_s / stores : 0, hidden_store = out_s - last_store;
    double hidden_compute = kernels - last_launch;
    if (tiling->out_slots == 1) hidden_compute += hidden_store; /* with one buffer, launches and stores alternate */
    double slowest = fmax(fmax(in_s - loads.first_s, hidden_compute), hidden_store);
    tiling->predicted_s = loads.first_s + slowest + last_launch + last_store;
    double busy = loads.read_s + tiling->copy_s + kernels + tiling->write_s;
    tiling->cost_s = tiling->predicted_s - loads.shared_s + TRAFFIC_WEIGHT * busy;
    find_slowest_stage(tiling);
}

/* Cuts a loop into about `pieces` tiles; the last one may be smaller. Tiles larger than half a chunk (`grain`) end at
 * chunk boundaries. Otherwise tiles of 8192 or more end at multiples of 1024 (whole segments of an array's hash), and
 * tiles over 64 at multiples of 16. */
static void cut_loop(int64_t extent, int64_t pieces, int64_t grain, int64_t *tile, int64_t *tiles) {
    *tile = extent > 0 ? ceil_div(extent, pieces) : 0;
    if (*tile < extent) {
        int64_t multiple = *tile >= 8192 ? 1024 : *tile > 64 ? 16 : 1;
        if (grain > 1 && *tile > grain / 2) multiple = grain;
        *tile = round_up(*tile, multiple);
        if (*tile > extent) *tile = extent;
    }
    *tiles = extent > 0 ? ceil_div(extent, *tile) : 0;
}

/* The largest chunk along each loop. */
static void find_grains(const struct geometry *geometry, const struct tiling *tiling, int64_t grain[LOOPS]) {
    for (int loop = 0; loop < LOOPS; loop++) grain[loop] = 1;
    for (int i = 0; i <= geometry->inputs; i++) {
        const struct operand *operand = i < geometry->inputs ? &geometry->in[i] : &geometry->out;
        const struct storage *storage = i < geometry->inputs ? &tiling->in_storage[i] : &tiling->out_storage;
        const struct shape *chunk = storage->grain.rank > 0 ? &storage->grain : &storage->chunk;
        for (int axis = 0; axis < chunk->rank; axis++)
            if (chunk->size[axis] > grain[operand->loop[axis]]) grain[operand->loop[axis]] = chunk->size[axis];
    }
}

/* A search for the best tiling. */
struct tiling_choice {
    const struct geometry *geometry;
    const struct device_facts *facts;
    const struct run *run;
    int64_t budget, min_bytes; /* min_bytes: bytes of the smallest tiling */
    bool prefers_one_step;
    struct tiling best;
    double best_cost; /* INFINITY: nothing fits yet */
};

/* Makes `trial` the best tiling so far if it fits into the budget and costs less, with two output buffers or with one;
 * costs that differ by rounding errors are equal, and less memory is then better. Changes the trial. */
static void consider_tiling(struct tiling_choice *choice, struct tiling *trial) {
    for (int slots = 2; slots >= 1; slots--) {
        trial->out_slots = slots;
        measure_memory(choice->geometry, choice->facts, choice->run, trial);
        if (trial->memory_bytes < choice->min_bytes) choice->min_bytes = trial->memory_bytes;
        if (trial->memory_bytes > choice->budget) continue;
        plan_predict(choice->geometry, choice->facts, choice->run, trial);
        double cost = choice->prefers_one_step && trial->steps <= 1 ? 0 : trial->cost_s;
        if (isinf(choice->best_cost) || cost < choice->best_cost * (1 - 1e-9) ||
            (cost <= choice->best_cost && trial->memory_bytes < choice->best.memory_bytes)) {
            choice->best = *trial;
            choice->best_cost = cost;
        }
        if (trial->out_slots < slots) break; /* measure_memory has lowered it: there is only one store */
    }
}

bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                int64_t budget, bool prefer_one_step, struct tiling *tiling) {
    /* The cuts of k affect the last bits of sums. So they must not depend on measured limits, the number of devices or
     * of threads; they do depend on the model of the device and the memory budget. */
    struct device_facts assumed = *facts;
    struct run all_threads = *run;
    all_threads.threads = 0;
    assumed.limits = NULL;
    assumed.team = 1;
    assumed.host_threads = USUAL_THREADS;
    if (geometry->bytes <= SMALL_BYTES) prefer_one_step = true;
    struct tiling_choice choice = {geometry,  &assumed,        &all_threads, budget,
                                   INT64_MAX, prefer_one_step, *tiling,      INFINITY};
    struct tiling trial = *tiling;
    int64_t grain[LOOPS];
    int max_power[LOOPS], power[LOOPS];
    find_grains(geometry, tiling, grain);
    for (int loop = 0; loop < LOOPS; loop++)
        for (max_power[loop] = 0; (INT64_C(1) << max_power[loop]) < geometry->extent[loop];) max_power[loop]++;

    for (power[0] = 0; power[0] <= max_power[0]; power[0]++)
        for (power[1] = 0; power[1] <= max_power[1]; power[1]++)
            for (power[2] = 0; power[2] <= max_power[2]; power[2]++)
                for (power[3] = 0; power[3] <= max_power[3]; power[3]++) {
                    if (power[0] + power[1] + power[2] + power[3] > MAX_STEPS_LOG2) continue;
                    if (choice.best_cost == 0) break; /* the first tiling, a single step, has won */
                    for (int loop = 0; loop < LOOPS; loop++) {
                        cut_loop(geometry->extent[loop], INT64_C(1) << power[loop], grain[loop], &trial.tile[loop],
                                 &trial.tiles[loop]);
                        /* A reduction of no elements is still one step, which gives the neutral element. */
                        if (geometry->reduces[loop] && trial.tiles[loop] == 0) trial.tiles[loop] = 1;
                    }
                    if (geometry->row_major_tiles && !tile_is_contiguous(first_operand(geometry), trial.tile)) continue;
                    consider_tiling(&choice, &trial);
                }
    *tiling = choice.best;
    if (run->threads && !isinf(choice.best_cost)) plan_predict(geometry, &assumed, run, tiling);
    if (isinf(choice.best_cost)) tiling->memory_bytes = choice.min_bytes;
    return !isinf(choice.best_cost);
}

void plan_tiles_of_part(const struct geometry *geometry, const struct device_facts *facts, const struct run *run,
                        const struct tiling *undivided, struct tiling *tiling) {
    *tiling = *undivided;
    for (int loop = 0; loop < LOOPS; loop++) {
        if (tiling->tile[loop] > geometry->extent[loop]) tiling->tile[loop] = geometry->extent[loop];
        tiling->tiles[loop] = tiling->tile[loop] > 0 ? ceil_div(geometry->extent[loop], tiling->tile[loop]) : 0;
        if (geometry->reduces[loop] && tiling->tiles[loop] == 0) tiling->tiles[loop] = 1;
    }
    measure_memory(geometry, facts, run, tiling);
    plan_predict(geometry, facts, run, tiling);
}
