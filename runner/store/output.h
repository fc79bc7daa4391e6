/* output.h - publishes files, OUTPUT and those of `to`, and copies the outputs of runs from their parts to them.
 *
 * A file is written under another name beside its place, synced, and renamed. So its place holds the older file or the
 * newer one, whenever the process or the machine stops. Copying a large output would take as long as writing it did. So
 * the part with the largest output may become the file: it is renamed, its objects are moved to their places, and
 * everything else is added. From that rename on the unit is missing. If the file is then not completed,
 * --resume makes the unit again. */
#ifndef RUNNER_OUTPUT_H
#define RUNNER_OUTPUT_H

#include "results.h"

/* Begins the file at `path`. *adopted: the run whose part becomes the file, by a rename; copy_output then moves the
 * part's objects within it. NULL: the file begins empty; *adopted becomes NULL if the part cannot be renamed. Close
 * with publish_end. */
enum status publish_begin(const struct results *results, const char *path, const struct run **adopted, hid_t *file,
                          struct error *error);
/* Closes the file and, if it was written without a failure (`status`) and the job does not forbid it, syncs it. Returns
 * the first failure. */
enum status publish_end(const struct results *results, const char *path, hid_t file, enum status status,
                        struct error *error);
/* STATUS_IO: another process has written the file while the job ran, and --overwrite is not given. */
enum status publish_check(const struct results *results, const struct destination *destination, struct error *error);
/* Renames the file to its final path and, unless the job forbids it, syncs the folder. Fails with STATUS_IO. */
enum status publish_put(const struct results *results, const struct destination *destination, const char *path,
                        struct error *error);

/* The open part of a run, inside a fence (fence.h); or the file that the part has become. */
struct stored {
    hid_t file; /* negative: the run is in panels */
    bool opened;
    char *path;
    const char *outer_fence;
};
/* Opens the part of a run whose status is ok. `adopted`: the open published file, if publish_begin made it from this
 * part; else negative. Fails if the part is gone: otherwise the file would show the run as done without its output.
 * Call copy_close, whatever the status. */
enum status copy_open(const struct results *results, const struct run *run, hid_t adopted, struct stored *from,
                      struct error *error);
/* Leaves the fence; closes the part, but not the file that it has become. */
void copy_close(struct stored *from);

/* The form in which a file gets an output: values; a virtual data set that shows the parts (an output without elements
 * or axes gets the values instead); or nothing, because the data set exists and lacks only the attributes. */
enum copied_as { COPY_VALUES, COPY_LINK_TO_PART, COPY_NOTHING };
/* Puts a run's output, with its attributes, into a file of h5_create_file as data set `path`. */
enum status copy_output(const struct stored *from, hid_t file, const struct results *results, const struct run *run,
                        const struct result_row *row, enum copied_as as, const char *path, struct error *error);
/* Copies an object from a part to a file, with or without its attributes; moves it if the part has become the file. */
enum status copy_whole_object(hid_t part, const char *name, hid_t file, const char *path, bool attributes,
                              struct error *error);

/* An absolute path as seen from OUTPUT's folder, "../data/x.h5"; the path itself if they share no folder. The caller
 * frees. */
char *relative_path(const struct results *results, const char *path);

#endif
