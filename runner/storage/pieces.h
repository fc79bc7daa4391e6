/* pieces.h - an array that lies in several data sets, each with a box of it: a result that shards have made by panels,
 * an input that is concatenated. */
#ifndef RUNNER_PIECES_H
#define RUNNER_PIECES_H

#include "reader.h"

struct pieces;
/* Room for `count` pieces of `array`, which must outlive them. The caller frees with pieces_free. */
struct pieces *pieces_create(const struct array *array, int count);
/* Sets where a piece lies: in that version of the file, or not at all. Opens nothing. */
void pieces_set(struct pieces *pieces, int number, const struct box *place, const char *file, const char *object,
                const struct stat *version);
/* The pieces of an input that is concatenated: data set `object` of each of its files. */
struct pieces *pieces_of_parts(const struct array *array, const char *object);
/* Opens the first piece's data set, which stays open until another piece is read. */
enum status pieces_open_first(struct pieces *pieces, const struct h5_dataset **dataset, struct error *error);
/* reader_read, put together from all pieces that have some of the box. */
enum status pieces_read(struct pieces *pieces, const struct box *box, void *data, struct read_counts *counts,
                        struct trace *trace, struct error *error);
/* Closes the data sets for now. */
void pieces_close(struct pieces *pieces);
/* NULL: does nothing. */
void pieces_free(struct pieces *pieces);

#endif
