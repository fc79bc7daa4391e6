/* plan_tiles.c - the choice of tiles.
 *
 * Each loop is cut into a power of two of equal pieces. There are few such tilings (the product of four logarithms), so
 * all are tried: what does not fit into memory is dropped, and of the rest the one whose slowest stage is fastest wins.
 * What every operand costs follows from the loops that run along it:
 *
 *     steps run b, m, n, k (k fastest); an operand's box changes whenever a loop of its own advances, and it has to be
 *     loaded again after an outer loop that it lacks has advanced and its own have started over.
 *
 *     matmul, C cut into M x N tiles, k into K panels:  A (b,m,k) is loaded N times over unless K = 1, B (b,k,n) M
 * times. */
#include "plan_tiles.h"

#include <math.h>
#include <string.h>

#define STEP_SECONDS    20e-6  /* launching, copying and bookkeeping of one step */
#define SEGMENT_SECONDS 0.3e-6 /* one piece of a box that is contiguous in its file */

static int64_t round_up(int64_t value, int64_t to) {
    return (value + to - 1) / to * to;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Elements of an operand's tile. */
static int64_t operand_tile_elements(const struct operand *operand, const int64_t tile[LOOPS]) {
    int64_t elements = 1;
    for (int axis = 0; axis < operand->shape.rank; axis++) elements *= tile[operand->loop[axis]];
    return elements;
}

/* How often an operand's tile is loaded (or stored) in a whole pass. */
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

/* Pieces of a tile that are contiguous in a row-major array. */
static int64_t operand_segments(const struct operand *operand, const int64_t tile[LOOPS]) {
    int64_t segments = 1;
    bool whole = true; /* are all later axes whole */
    for (int axis = operand->shape.rank - 1; axis >= 0; axis--) {
        int64_t count = tile[operand->loop[axis]];
        if (!whole) segments *= count;
        whole = whole && count == operand->shape.size[axis];
    }
    return segments;
}

/* reduce over all axes: a tile has to be one run of elements, so behind the first axis that is cut to more than one all
 * are whole. */
static bool tile_is_row_major_run(const struct operand *operand, const int64_t tile[LOOPS]) {
    int axis = 0;
    while (axis < operand->shape.rank && tile[operand->loop[axis]] <= 1) axis++;
    for (axis++; axis < operand->shape.rank; axis++)
        if (tile[operand->loop[axis]] < operand->shape.size[axis]) return false;
    return true;
}

static int64_t buffer_bytes(int64_t elements, size_t size) {
    int64_t bytes = round_up(elements * (int64_t)size, 256);
    return bytes > 256 ? bytes : 256;
}

/* Fills everything of `run` that follows from tile and tiles; the predicted seconds of the pass are its cost. */
static double tiling_cost(const struct geometry *geometry, const struct device_facts *facts, struct run *run) {
    const struct operand *out = &geometry->out;
    run->steps = 1;
    bool split = false;
    for (int loop = 0; loop < LOOPS; loop++) {
        run->steps *= run->tiles[loop];
        split = split || (geometry->reduces[loop] && run->tiles[loop] > 1);
    }
    double read_bytes = 0, segments = 0;
    run->memory_bytes = 0;
    for (int i = 0; i < geometry->inputs; i++) {
        const struct operand *in = &geometry->in[i];
        int64_t loads = operand_loads(in, run->tiles), elements = operand_tile_elements(in, run->tile);
        run->in_slots[i] = loads > 1 ? 2 : 1;
        run->in_bytes[i] = buffer_bytes(elements, dtype_size(in->dtype));
        run->memory_bytes += run->in_slots[i] * run->in_bytes[i];
        read_bytes += (double)loads * (double)elements * (double)dtype_size(in->dtype);
        segments += (double)loads * (double)operand_segments(in, run->tile);
    }
    int64_t out_elements = operand_tile_elements(out, run->tile), stores = operand_loads(out, run->tiles);
    run->out_slots = stores > 1 ? 2 : 1;
    run->out_bytes = buffer_bytes(out_elements, dtype_size(out->dtype));
    run->partial_bytes = geometry->partial_size > 0 && (split || geometry->partial_always)
                             ? buffer_bytes(out_elements, geometry->partial_size)
                             : 0;
    struct launch launch;
    memset(&launch, 0, sizeof launch);
    struct tile tile = {{0}, {0}};
    memcpy(tile.count, run->tile, sizeof tile.count);
    const void *const nowhere[2] = {NULL, NULL};
    operations[geometry->op]->launch(geometry, &tile, true, true, nowhere, NULL, NULL, &launch);
    memcpy(launch.choice, run->choice, sizeof launch.choice);
    launch.multiprocessors = facts->multiprocessors;
    run->workspace_bytes = round_up((int64_t)kernel_workspace(run->kernel, &launch), 256);
    run->memory_bytes += run->out_slots * run->out_bytes + run->partial_bytes + run->workspace_bytes;

    double write_bytes = (double)shape_elements(&out->shape) * (double)dtype_size(out->dtype);
    segments += (double)stores * (double)operand_segments(out, run->tile);
    run->traffic_bytes = read_bytes + write_bytes;
    double copy = facts->kind == DEVICE_CUDA ? fmax(read_bytes, write_bytes) / facts->copy_bytes_per_s : 0;
    const struct {
        const char *name;
        double seconds;
    } stages[] = {
        {"read", read_bytes / facts->read_bytes_per_s + segments * SEGMENT_SECONDS},
        {"copy", copy},
        {"compute", fmax(geometry->flops / facts->flops_per_s[geometry->in[0].dtype],
                         (read_bytes + write_bytes) / facts->memory_bytes_per_s)},
        {"write", write_bytes / facts->write_bytes_per_s},
    };
    run->bound_s = -1;
    for (int i = 0; i < 4; i++)
        if (stages[i].seconds > run->bound_s) run->bound_s = stages[i].seconds, run->bound_by = stages[i].name;
    return run->bound_s + (double)run->steps * STEP_SECONDS;
}

/* Cuts a loop into about `pieces`, the last of which may be smaller; pieces of more than 64 are multiples of 16. */
static void cut(int64_t extent, int64_t pieces, int64_t *tile, int64_t *tiles) {
    *tile = extent > 0 ? ceil_div(extent, pieces) : 0;
    if (*tile > 64 && *tile < extent) *tile = round_up(*tile, 16);
    *tiles = extent > 0 ? ceil_div(extent, *tile) : 0;
}

bool plan_tiles(const struct geometry *geometry, const struct device_facts *facts, int64_t budget, struct run *run) {
    struct run best = *run, trial = *run;
    double best_cost = INFINITY;
    int64_t least = INT64_MAX;
    int most[LOOPS], power[LOOPS];
    for (int loop = 0; loop < LOOPS; loop++)
        for (most[loop] = 0; (INT64_C(1) << most[loop]) < geometry->extent[loop];) most[loop]++;

    for (power[0] = 0; power[0] <= most[0]; power[0]++)
        for (power[1] = 0; power[1] <= most[1]; power[1]++)
            for (power[2] = 0; power[2] <= most[2]; power[2]++)
                for (power[3] = 0; power[3] <= most[3]; power[3]++) {
                    for (int loop = 0; loop < LOOPS; loop++) {
                        cut(geometry->extent[loop], INT64_C(1) << power[loop], &trial.tile[loop], &trial.tiles[loop]);
                        /* A reduction over nothing is still one step, and gives the neutral element. */
                        if (geometry->reduces[loop] && trial.tiles[loop] == 0) trial.tiles[loop] = 1;
                    }
                    if (geometry->row_major_tiles && !tile_is_row_major_run(&geometry->in[0], trial.tile)) continue;
                    double cost = tiling_cost(geometry, facts, &trial);
                    if (trial.memory_bytes < least) least = trial.memory_bytes;
                    if (trial.memory_bytes > budget) continue;
                    bool first_fit = isinf(best_cost);
                    if (first_fit || cost < best_cost * (1 - 1e-9) ||
                        (cost <= best_cost && trial.memory_bytes < best.memory_bytes)) {
                        best = trial;
                        best_cost = cost;
                    }
                }
    *run = best;
    if (isinf(best_cost)) run->memory_bytes = least;
    return !isinf(best_cost);
}
