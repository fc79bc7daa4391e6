/* sort.h - numbers in order. */
#ifndef RUNNER_SORT_H
#define RUNNER_SORT_H

/* Sorts numbers, the least first; none may be NaN. */
void sort_doubles(double *values, int count);
/* A sorted copy, which the caller frees. */
double *sorted_doubles(const double *values, int count);
/* The median of at least one number. */
double median_of_sorted(const double *sorted, int count);

#endif
