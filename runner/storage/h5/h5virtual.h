/* h5virtual.h - virtual data sets: their elements lie in data sets of other files. */
#ifndef RUNNER_H5VIRTUAL_H
#define RUNNER_H5VIRTUAL_H

#include "h5io.h"

/* What a box of the virtual data set shows: all of a data set of that size. */
struct h5_source {
    const char *file; /* relative to the folder of the file that the virtual data set is in */
    const char *name; /* "/output" */
    struct box place;
};

/* Creates virtual data set /path, and the groups that it needs. Rank 1 at least. Where a source is missing, readers see
 * NaN, -1 or, of unsigned integers, the largest number. */
enum status h5_create_virtual(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                              const struct h5_source sources[], int count, struct error *error);

bool h5_is_virtual(hid_t dataset);

/* Of a file whose virtual data sets need all of their sources: the folder that these are in. */
#define H5_LINKED "parts"
bool h5_is_linked(hid_t file);

/* Calls `visit` for each source that the creation properties of a virtual data set name, of mappings of one source that
 * follow one another once, while it returns true. Of other data sets there are none. `seen`: only for sources that may
 * show a part of it; NULL: for all. */
void h5_each_source(hid_t creation, const struct selection *seen,
                    bool (*visit)(void *context, const char *file, const char *dataset), void *context);

#endif
