/* same_bits.c - compares the launches of a whole loop with those of its parts. */
#include "same_bits.h"
#include "plan_tiles.h"

/* Numbers of multiprocessors of small and large GPUs, among them the A100, H100, H200 and B200. */
static const int common_counts[] = {16, 40, 80, 108, 114, 132, 148, 192};

bool same_bits_at_sizes(const struct geometry *geometry, const struct run *run, const struct tiling *tiling, int loop,
                        const int64_t *sizes, int count, int multiprocessors) {
    if (operations[geometry->op]->exact || run->skip || !run->kernel || run->kernel->is_roof) return true;
    if (!run->kernel->divisible) return false;
    if (!run->kernel->way || geometry_is_empty(geometry)) return true;
    for (unsigned last = 0; last < 1u << LOOPS; last++) { /* the set of loops with the last, smaller tile */
        int64_t extent[LOOPS];
        for (int other = 0; other < LOOPS; other++) {
            int64_t tile = tiling->tile[other], rest = tile > 0 ? geometry->extent[other] % tile : 0;
            extent[other] = last & 1u << other && rest > 0 ? rest : tile;
        }
        extent[loop] = sizes[0];
        struct launch uncut = plan_launch_of(geometry, run, extent, multiprocessors);
        for (int i = 1; i < count; i++) {
            if (sizes[i] == 0) continue;
            extent[loop] = sizes[i];
            struct launch part = plan_launch_of(geometry, run, extent, multiprocessors);
            if (!kernel_same_bits(run->kernel, &uncut, &part)) return false;
        }
    }
    return true;
}

bool same_bits_in_parts(const struct geometry *geometry, const struct run *run, int loop, int parts) {
    const struct tiling *tiling = &run->tiling;
    int64_t tile = tiling->tile[loop], extent = geometry->extent[loop], sizes[6];
    if (run->skip || !run->kernel) return true;
    sizes[0] = tile;
    sizes[1] = tile > 0 ? extent % tile : 0;
    /* The lengths of parts differ by one: full and last tiles of both lengths. */
    for (int longer = 0; longer < 2; longer++) {
        int64_t part = extent / parts + longer, part_tile = tile < part ? tile : part;
        sizes[2 + 2 * longer] = part_tile;
        sizes[3 + 2 * longer] = part_tile > 0 ? part % part_tile : 0;
    }
    for (size_t i = 0; i < sizeof common_counts / sizeof *common_counts; i++)
        if (!same_bits_at_sizes(geometry, run, tiling, loop, sizes, 6, common_counts[i])) return false;
    return true;
}
