/* bands.c - divides each step's tile among the devices of a team: device i, lane i of the stream, computes a contiguous
 * band of it. Only divisions that give the same bits as one device are used. */
#include "bands.h"

#include "../plan/same_bits.h"
#include <math.h>

/* Bands end at multiples of a grain. WIDE_GRAIN elements are a multiple of every kernel's tile; they are used if each
 * device gets at least WIDE_GRAINS of them. Otherwise the grain is NARROW_GRAIN, which kernel->divisible demands. */
#define NARROW_GRAIN 16
#define WIDE_GRAIN   128
#define WIDE_GRAINS  16

/* The longest filtered chunk along a loop. A band should hold whole chunks, so that only one device decodes or encodes
 * each of them. */
static int64_t chunk_along(const struct geometry *geometry, const struct tiling *tiling, int loop) {
    int64_t longest = 1;
    for (int i = 0; i <= geometry->inputs; i++) {
        const struct operand *operand = i < geometry->inputs ? &geometry->in[i] : &geometry->out;
        const struct storage *storage = i < geometry->inputs ? &tiling->in_storage[i] : &tiling->out_storage;
        for (int axis = 0; storage->filtered && axis < operand->shape.rank; axis++)
            if ((int)operand->loop[axis] == loop && storage->chunk.size[axis] > longest)
                longest = storage->chunk.size[axis];
    }
    return longest;
}

/* Returns the grain along a loop: the length of each band but the last is a multiple of it. Along LOOP_B, which counts
 * the matrices of a stack, it is 1, because the matrices are independent. If whole chunks fit, the grain is a chunk. */
static int64_t grain_of(const struct geometry *geometry, const struct tiling *tiling, int loop, int lanes) {
    int64_t tile = tiling->tile[loop], chunk = chunk_along(geometry, tiling, loop);
    int64_t grain = loop == LOOP_B ? 1 : tile >= (int64_t)WIDE_GRAINS * WIDE_GRAIN * lanes ? WIDE_GRAIN : NARROW_GRAIN;
    return chunk > grain && chunk <= tile / lanes ? chunk : grain;
}

/* The end of a lane's band in a tile of `count` elements; 0 for lane -1. The end is rounded up, so that the first lane
 * always has work; later lanes may have none. */
static int64_t band_end(const struct bands *bands, int64_t count, int lane) {
    if (lane < 0) return 0;
    if (lane == bands->lanes - 1) return count;
    int64_t end = (int64_t)ceil(bands->end_fraction[lane] * (double)count / (double)bands->grain) * bands->grain;
    return end < count ? end : count;
}

/* Does every band of a tile of `count` elements give the same bits as the whole tile? */
static bool bands_agree(const struct bands *bands, const struct team *team, const struct geometry *geometry,
                        const struct run *run, const struct tiling *tiling, int64_t count) {
    int64_t sizes[MAX_DEVICES + 1] = {count}; /* sizes of the whole tile, then of each band */
    for (int lane = 0; lane < bands->lanes; lane++)
        sizes[lane + 1] = band_end(bands, count, lane) - band_end(bands, count, lane - 1);
    for (int lane = 0; lane < bands->lanes; lane++)
        if (!same_bits_at_sizes(geometry, run, tiling, bands->loop, sizes, bands->lanes + 1,
                                team->devices[lane]->facts.multiprocessors))
            return false;
    return true;
}

struct bands bands_divide(const struct team *team, const struct geometry *geometry, const struct run *run,
                          const struct tiling *tiling) {
    const struct bands alone = {.lanes = 1, .grain = 1, .end_fraction = {1}};
    const struct operand *out = &geometry->out;
    int axis = 0; /* the outermost axis of the output that the tile has several elements of */
    while (axis < out->shape.rank && tiling->tile[out->loop[axis]] <= 1) axis++;
    if (team->count == 1 || axis == out->shape.rank) return alone;
    struct bands bands = {.lanes = team->count, .loop = (int)out->loop[axis]};
    int64_t tile = tiling->tile[bands.loop];
    bands.grain = grain_of(geometry, tiling, bands.loop, bands.lanes);
    if (tile / bands.grain < bands.lanes) bands.lanes = (int)(tile / bands.grain);
    if (bands.lanes <= 1) return alone;
    double all = 0, sum = 0; /* bands are as wide as the speed in float32, whatever the type */
    for (int lane = 0; lane < bands.lanes; lane++) all += team->devices[lane]->facts.flops_per_s[FLOAT32];
    for (int lane = 0; lane < bands.lanes; lane++) {
        sum += team->devices[lane]->facts.flops_per_s[FLOAT32];
        bands.end_fraction[lane] = all > 0 ? sum / all : (lane + 1.0) / bands.lanes;
    }
    bool agree = bands_agree(&bands, team, geometry, run, tiling, tile);
    int64_t rest = geometry->extent[bands.loop] % tile;
    if (rest > 0) agree = agree && bands_agree(&bands, team, geometry, run, tiling, rest);
    return agree ? bands : alone;
}

bool bands_step_of_lane(const struct bands *bands, const struct geometry *geometry, const struct step *step, int lane,
                        struct step *band) {
    *band = *step;
    if (bands->lanes == 1) return lane == 0;
    int loop = bands->loop;
    int64_t count = step->tile.count[loop], first = band_end(bands, count, lane - 1);
    band->tile.start[loop] += first;
    band->tile.count[loop] = band_end(bands, count, lane) - first;
    for (int i = 0; i < geometry->inputs; i++) band->load[i] = box_of_tile(&geometry->in[i], &band->tile);
    band->store = box_of_tile(&geometry->out, &band->tile);
    return band->tile.count[loop] > 0;
}
