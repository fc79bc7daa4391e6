/* sort.h - sorts numbers and finds their median. */
#ifndef RUNNER_SORT_H
#define RUNNER_SORT_H

/* Sorts numbers in ascending order; none may be NaN. */
void sort_doubles(double *values, int count);
/* A sorted copy, which the caller frees. */
double *sorted_doubles(const double *values, int count);
/* The median of sorted numbers; `count` is at least 1. */
double median_of_sorted(const double *sorted, int count);

#endif
