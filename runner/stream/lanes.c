/* lanes.c - cuts steps into bands. */
#include "lanes.h"

#include "../plan/ways.h"
#include <math.h>

/* A band has at least so many elements along its loop (kernel->divisible), and of a large tile whole tiles of any
 * kernel. */
#define LEAST 16
#define WIDE  128
#define MANY  16 /* bands of WIDE that a device must have before they are that wide */

/* Chunks that are decoded or encoded whole should have one owner. */
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

static int64_t grain_of(const struct geometry *geometry, const struct tiling *tiling, int loop, int lanes) {
    int64_t tile = tiling->tile[loop], chunk = chunk_along(geometry, tiling, loop);
    int64_t grain = loop == LOOP_B ? 1 : tile >= (int64_t)MANY * WIDE * lanes ? WIDE : LEAST;
    return chunk > grain && chunk <= tile / lanes ? chunk : grain;
}

/* Where a lane's band ends. The first lane's is never empty. */
static int64_t band_end(const struct division *division, int64_t count, int lane) {
    if (lane < 0) return 0;
    if (lane == division->lanes - 1) return count;
    int64_t end = (int64_t)ceil(division->end[lane] * (double)count / (double)division->grain) * division->grain;
    return end < count ? end : count;
}

/* Has every band of a tile of that size the bits of the whole? */
static bool bands_agree(const struct division *division, const struct team *team, const struct geometry *geometry,
                        const struct run *run, const struct tiling *tiling, int64_t count) {
    int64_t sizes[MOST_DEVICES + 1] = {count};
    for (int lane = 0; lane < division->lanes; lane++)
        sizes[lane + 1] = band_end(division, count, lane) - band_end(division, count, lane - 1);
    for (int lane = 0; lane < division->lanes; lane++)
        if (!ways_agree(geometry, run, tiling, division->loop, sizes, division->lanes + 1,
                        team->devices[lane]->facts.multiprocessors))
            return false;
    return true;
}

struct division lanes_divide(const struct team *team, const struct geometry *geometry, const struct run *run,
                             const struct tiling *tiling) {
    const struct division alone = {.lanes = 1, .grain = 1, .end = {1}};
    const struct operand *out = &geometry->out;
    int axis = 0;
    while (axis < out->shape.rank && tiling->tile[out->loop[axis]] <= 1) axis++;
    if (team->count == 1 || axis == out->shape.rank) return alone;
    struct division division = {.lanes = team->count, .loop = (int)out->loop[axis]};
    int64_t tile = tiling->tile[division.loop];
    division.grain = grain_of(geometry, tiling, division.loop, division.lanes);
    if (tile / division.grain < division.lanes) division.lanes = (int)(tile / division.grain);
    if (division.lanes <= 1) return alone;
    double all = 0, sum = 0;
    for (int lane = 0; lane < division.lanes; lane++) all += team->devices[lane]->facts.flops_per_s[FLOAT32];
    for (int lane = 0; lane < division.lanes; lane++) {
        sum += team->devices[lane]->facts.flops_per_s[FLOAT32];
        division.end[lane] = all > 0 ? sum / all : (lane + 1.0) / division.lanes;
    }
    bool agree = bands_agree(&division, team, geometry, run, tiling, tile);
    int64_t rest = geometry->extent[division.loop] % tile;
    if (rest > 0) agree = agree && bands_agree(&division, team, geometry, run, tiling, rest);
    return agree ? division : alone;
}

bool lanes_band(const struct division *division, const struct geometry *geometry, const struct step *step, int lane,
                struct step *band) {
    *band = *step;
    if (division->lanes == 1) return lane == 0;
    int loop = division->loop;
    int64_t count = step->tile.count[loop], first = band_end(division, count, lane - 1);
    band->tile.start[loop] += first;
    band->tile.count[loop] = band_end(division, count, lane) - first;
    for (int i = 0; i < geometry->inputs; i++) band->load[i] = box_of_tile(&geometry->in[i], &band->tile);
    band->store = box_of_tile(&geometry->out, &band->tile);
    return band->tile.count[loop] > 0;
}
