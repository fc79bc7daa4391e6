/* h5virtual.h - makes and examines virtual data sets, whose elements are stored in other data sets, the sources, mostly
 * of other files. */
#ifndef RUNNER_H5VIRTUAL_H
#define RUNNER_H5VIRTUAL_H

#include "h5io.h"

/* A source, all elements of which appear in `box` of the virtual data set. */
struct h5_source {
    const char *file; /* relative to the folder of the file that the virtual data set is in */
    const char *name; /* "/output" */
    struct box box;
};

/* Creates virtual data set /path, of rank 1 at least, and its parent groups. If a source is missing, readers see NaN,
 * -1 or, for unsigned integers, the largest number. */
enum status h5_create_virtual(hid_t file, const char *path, enum dtype dtype, const struct shape *shape,
                              const struct h5_source sources[], int count, struct error *error);

bool h5_is_virtual(hid_t dataset);
/* Do the creation properties say that other files store the elements of a data set: sources or external storage? */
bool h5_is_scattered(hid_t creation);

/* Name of the attribute that marks a file whose virtual data sets need all of their sources; its value is the folder of
 * the sources. */
#define H5_LINKED "parts"
bool h5_is_linked(hid_t file);

/* Calls `visit`, as long as it returns true, for each source in the creation properties of a virtual data set; once for
 * consecutive mappings of one source. Data sets that are not virtual have none. `seen`: visit only sources that may
 * show a part of this selection; NULL: all. */
void h5_each_source(hid_t creation, const struct selection *seen,
                    bool (*visit)(void *context, const char *file, const char *dataset), void *context);

#endif
