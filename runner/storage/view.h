/* view.h - what a job sees of a data set: every step-th element of a part of each axis; an axis of which it takes one
 * index is not seen. A view is stated in the data set's axes, a box of it in those that are seen. */
#ifndef RUNNER_VIEW_H
#define RUNNER_VIEW_H

#include "../job/job.h"
#include "elements/selection.h"

struct data_view {
    struct shape source;                     /* the data set's; rank 0: all of an array is seen as it is */
    int64_t first[MAX_RANK], step[MAX_RANK]; /* along each axis of the source */
    bool dropped[MAX_RANK];                  /* only index `first` of that axis is seen */
};

struct data_view view_of_all(const struct shape *source);
/* Applies the key `select`, given for a data set of that shape: fills the view and the shape that is seen.
 * STATUS_USAGE: an entry is out of range, or there are more or fewer than axes. */
enum status view_select(const struct job_select *select, struct data_view *view, struct shape *seen,
                        struct error *error);
/* Narrows an axis that is seen to what lies from its element number `first` on. */
void view_begin(struct data_view *view, int axis, int64_t first);
/* The axis of the source that is seen as `axis`. */
int view_axis(const struct data_view *view, int axis);
/* Is every seen element next to the one before, along each axis? */
bool view_is_box(const struct data_view *view);
/* A box of what is seen, in the source. */
struct selection view_selection(const struct data_view *view, const struct box *box);
/* Where, in what is seen, a chunk of the source ends: at multiples of `grain`, once `shift` is added (cut.h). */
struct shape view_grain(const struct data_view *view, const struct shape *chunk);
void view_shift(const struct data_view *view, int64_t shift[MAX_RANK]);
/* The source's elements that are read for each one that is seen: those between them in the file, or in the same chunk.
 */
double view_excess(const struct data_view *view, const struct shape *seen, const struct shape *chunk);

#endif
