/* bands.h - divides a run among the devices of a team: each device computes a band of every step's tile.
 *
 *     step                    device 0                device 1
 *     A[0..99] * B            A[0..49] * B            A[50..99] * B      B, which both need, is read once (stream.c)
 *
 * The loop that is cut is the first loop of the result along which the tile has several elements, so that the bands are
 * stored in the order of the elements. A faster device gets a wider band. Tiles are the same as for a single device,
 * and a run is divided only if its kernel gives each element the same bits in a band (same_bits.h), so a team produces
 * the same bits as a single device. */
#ifndef RUNNER_BANDS_H
#define RUNNER_BANDS_H

#include "stream.h"

struct bands {
    int lanes;                        /* number of devices that take part; 1: the first one computes everything */
    int loop;                         /* the loop that is cut */
    int64_t grain;                    /* bands end at multiples of this number */
    double end_fraction[MAX_DEVICES]; /* the end of each band, as a fraction of the tile */
};
/* Divides the tiles of a run among the devices of a team; gives them to the first device alone if a tile is too small
 * or the bits would change. */
struct bands bands_divide(const struct team *team, const struct geometry *geometry, const struct run *run,
                          const struct tiling *tiling);
/* The band of a step that a lane (a device's share of the run) computes; false: it is empty. */
bool bands_step_of_lane(const struct bands *bands, const struct geometry *geometry, const struct step *step, int lane,
                        struct step *band);

#endif
