/* sort.c - sorts numbers with qsort. */
#include "sort.h"

#include "fail.h"
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_doubles(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
}

double *sorted_doubles(const double *values, int count) {
    double *sorted = must_malloc((size_t)(count + 1) * sizeof *sorted);
    if (count > 0) memcpy(sorted, values, (size_t)count * sizeof *sorted);
    sort_doubles(sorted, count);
    return sorted;
}

double median_of_sorted(const double *sorted, int count) {
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}
