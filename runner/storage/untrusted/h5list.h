/* h5list.h - which data sets a file holds, whatever is in them: for people (`tilerun inspect`). Whether one can be an
 * input says array_describe (array.h). */
#ifndef RUNNER_H5LIST_H
#define RUNNER_H5LIST_H

#include "../../../kernels/core/operation.h"
#include "../../base/fail.h"
#include "h5kind.h"
#include <stdbool.h>

struct h5_entry {
    char *name;    /* from the root: "/raw/frames" */
    char *type;    /* "int16", "int16 big-endian"; "uint8 (bool)"; of what no job takes its class: "string" */
    char *shape;   /* "100x512x512"; "scalar", "empty" */
    char *layout;  /* "chunks 1x512x512"; else "contiguous", "compact", "virtual", "external" */
    char *filters; /* "shuffle, gzip 4", in the order in which writing applies them; "": none */
    double bytes; /* of its elements in memory, as the file has them; of strings and the like in the heap: unknown, 0 */
    double stored;              /* of the file that they take; virtual and external ones: 0 */
    int rank, long_axes;        /* axes, and those of more than one position: a vector of MATLAB's has one */
    double elements;            /* 0: empty, or not known */
    double chunks, chunk_bytes; /* how many cover it, and the bytes of each, decoded; 0: not chunked */
    enum h5_kind kind;
    unsigned marks;       /* H5_MARK_..., what its attributes say */
    const char *same_as;  /* H5_ALIAS: the entry that is this data set too */
    char *note;           /* a sentence about its group; NULL: none */
    char *axes[MAX_RANK]; /* "time", "lat", "lon", from h5_list_axes; NULL: it has no name */
    bool linked;          /* by a soft or an external link */
    char *link_file;      /* of an external link: the file as the link names it; NULL: it is none */
    char *link_object;    /* and the data set there */
    unsigned long file;   /* with `address`: which data set it is */
    unsigned long long address;
};

struct h5_list {
    int count;
    struct h5_entry *entries; /* in the order of their names */
    int broken;               /* links that lead nowhere */
    char *first_broken;       /* its name and what it is; NULL: none */
    int outside;              /* links that are not followed: they lead out of the file's folder, or to no file */
    char *first_outside;
    int64_t file; /* HDF5's, open as long as the list is: who describes its entries does not open it anew for each */
};

/* Lists the data sets of a file at and below `object` ("/": all), each under every link that leads to it, links to
 * other files of its folder included. STATUS_USAGE: there is no such file or object, with the nearest name. The caller
 * frees the list with h5_list_free, whatever the status. */
enum status h5_list(const char *path, const char *object, struct h5_list *list, struct error *error);
/* Finds the names of the axes of those entries: from dimension scales, labels, and attributes of xarray, openPMD and
 * NeXus. What cannot be read has none. */
void h5_list_axes(const char *path, const struct h5_list *list, struct h5_entry *const which[], int count);
void h5_list_free(struct h5_list *list);

#endif
