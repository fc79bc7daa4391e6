/* bands.h - how the devices of a team share a run: each takes a band of every step's tile.
 *
 *     step                    device 0                device 1
 *     A[0..99] * B            A[0..49] * B            A[50..99] * B      what both need is read once (stream.c)
 *
 * The loop that is cut is the first of the result's that the tile has more than one element of, so that the bands are
 * stored in the order of the elements. A faster device gets a wider band. Tiles are a lone device's, and a run is
 * shared only where its kernel gives each element the same bits in a band (same_bits.h): then so does the team. */
#ifndef RUNNER_BANDS_H
#define RUNNER_BANDS_H

#include "stream.h"

struct bands {
    int lanes;     /* devices that take part; 1: the first does all */
    int loop;      /* that is cut */
    int64_t grain; /* bands end at its multiples */
    double end[MOST_DEVICES];
};
struct bands bands_divide(const struct team *team, const struct geometry *geometry, const struct run *run,
                          const struct tiling *tiling);
/* The part of a step that a lane does; false: none. */
bool bands_step(const struct bands *bands, const struct geometry *geometry, const struct step *step, int lane,
                struct step *band);

#endif
