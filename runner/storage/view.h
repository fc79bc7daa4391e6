/* view.h - describes the part of a data set that a job reads: every step-th element of a range of each axis. An axis of
 * which the job takes a single index is dropped. A view is given in the axes of the data set ("source"); boxes of it
 * use the axes that remain, the kept ones. */
#ifndef RUNNER_VIEW_H
#define RUNNER_VIEW_H

#include "../base/job_input.h"
#include "elements/selection.h"

struct data_view {
    struct shape source;                     /* shape of the data set; rank 0: the view is the whole array */
    int64_t first[MAX_RANK], step[MAX_RANK]; /* for each axis of the source */
    bool dropped[MAX_RANK];                  /* the job takes only index `first` of this axis */
};

struct data_view view_of_all(const struct shape *source);
/* Applies the key `select` to a data set of shape *shape: sets the view, and *shape to its shape. STATUS_USAGE: an
 * entry is out of range, or the number of entries is not the number of axes. */
enum status view_select(const struct job_select *select, struct data_view *view, struct shape *shape,
                        struct error *error);
/* Moves the beginning of kept axis `axis` to its element `first`. */
void view_begin(struct data_view *view, int axis, int64_t first);
/* The source axis of kept axis `axis`. */
int view_axis(const struct data_view *view, int axis);
/* Are all steps 1 and no axes dropped? */
bool view_is_box(const struct data_view *view);
/* Maps a box of the view to the source. */
struct selection view_selection(const struct data_view *view, const struct box *box);
/* The chunk grid in the view: chunks end at multiples of `grain`, once `shift` is added (cut.h). */
struct shape view_grain(const struct data_view *view, const struct shape *chunk);
void view_shift(const struct data_view *view, int64_t shift[MAX_RANK]);
/* The number of source elements that are read for each element of the view, because they are between its elements or in
 * the same chunk. */
double view_excess(const struct data_view *view, const struct shape *shape, const struct shape *chunk);

#endif
