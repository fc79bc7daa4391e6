/* draws.h - random numbers of a test, which begin anew wherever it sets the state. */
#ifndef TESTS_DRAWS_H
#define TESTS_DRAWS_H

#include <stdint.h>

static uint64_t state_of_draws;

/* From 0 to 1, 1 excluded. */
static inline double draw(void) {
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (double)(state_of_draws >> 11) * 0x1p-53;
}

static inline int draw_below(int count) {
    return (int)(draw() * count);
}

#endif
