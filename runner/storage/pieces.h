/* pieces.h - an array that lies in several data sets, each of which holds one box of it: a result that shards computed
 * by panels, or a concatenated input. */
#ifndef RUNNER_PIECES_H
#define RUNNER_PIECES_H

#include "reader.h"

struct pieces;
/* Allocates `count` pieces of `array`, which must outlive them. The caller frees with pieces_free. */
struct pieces *pieces_create(const struct array *array, int count);
/* Sets the box, file, data set and file version of a piece. Opens nothing. */
void pieces_set(struct pieces *pieces, int number, const struct box *place, const char *file, const char *object,
                const struct stat *version);
/* The pieces of a concatenated input: data set `object` of each of its files. */
struct pieces *pieces_of_parts(const struct array *array, const char *object);
/* Opens the data set of the first piece. It stays open until another piece is read. */
enum status pieces_open_first(struct pieces *pieces, const struct h5_dataset **dataset, struct error *error);
/* Reads a box from all pieces that overlap it. */
enum status pieces_read(struct pieces *pieces, const struct box *box, void *data, struct read_counts *counts,
                        struct trace *trace, struct error *error);
/* Closes the data sets; pieces_read opens them again. */
void pieces_close(struct pieces *pieces);
void pieces_free(struct pieces *pieces);

#endif
