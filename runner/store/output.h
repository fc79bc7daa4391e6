/* output.h - takes what runs have made to the file that shall hold it. */
#ifndef RUNNER_OUTPUT_H
#define RUNNER_OUTPUT_H

#include "results.h"

/* Opens the part of a run that is ok; of one that is done in panels from->file is negative. It fails if there is none:
 * a file would otherwise claim that the run was done and lack its output. Call copy_close, whatever the status. */
enum status copy_open(const struct results *results, const struct run *run, struct stored *from, struct error *error);
void copy_close(struct stored *from);

/* What a file gets of an output: its values, a virtual data set of its parts (of what has no elements or no axes its
 * values), or only the attributes, because the data set is there. */
enum taken { COPY_VALUES, COPY_LINK_TO_PART, COPY_NOTHING };
/* Puts a run's output, with its attributes, into a file of h5_create_file as data set `path`. */
enum status copy_output(const struct stored *from, hid_t file, const struct results *results, const struct run *run,
                        const struct result_row *row, enum taken as, const char *path, struct error *error);
/* Copies an object, or moves it if the part has become the file itself. */
enum status copy_whole_object(hid_t part, const char *name, hid_t file, const char *path, bool attributes,
                              struct error *error);

/* The way from OUTPUT's folder to an absolute path, "../data/x.h5", or that path itself if they share no folder. The
 * caller frees. */
char *relative_path(const struct results *results, const char *path);

#endif
