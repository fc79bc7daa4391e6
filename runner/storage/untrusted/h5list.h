/* h5list.h - lists all data sets of a file, whatever they contain, for people (`tilerun inspect`). array_describe
 * (array.h) decides whether a data set can be an input. */
#ifndef RUNNER_H5LIST_H
#define RUNNER_H5LIST_H

#include "../../../kernels/core/operation.h"
#include "../../base/fail.h"
#include "../../base/texts.h"
#include "h5kind.h"
#include <stdbool.h>

struct h5_entry {
    char *name;    /* path from the root: "/raw/frames" */
    char *type;    /* "int16", "int16 big-endian"; "uint8 (bool)"; the class of a type that no job reads: "string" */
    char *shape;   /* "100x512x512"; "scalar", "empty" */
    char *layout;  /* "chunks 1x512x512"; else "contiguous", "compact", "virtual", "external" */
    char *filters; /* "shuffle, gzip 4", in the order in which writing applies them; "": none */
    double bytes;  /* size of all elements in the file's type; 0: not known, as for strings of varying length */
    double stored; /* bytes that the file stores; 0 for virtual and external data sets */
    int rank, long_axes;        /* number of axes, and of axes longer than 1: a MATLAB vector has one */
    double elements;            /* number of elements; 0: empty, or not known */
    double chunks, chunk_bytes; /* number of chunks, and decoded bytes of a chunk; 0: not chunked */
    enum h5_kind kind;
    unsigned marks;       /* H5_MARK_... flags */
    const char *same_as;  /* name of the first entry of the same data set; only for H5_ALIAS */
    char *note;           /* a sentence about the data set's group; NULL: none */
    struct texts fields;  /* numeric fields of a table, parts of complex numbers */
    char *axes[MAX_RANK]; /* "time", "lat", "lon", set by h5_list_axes; NULL: no name */
    bool linked;          /* reached by a soft or an external link */
    char *link_file;      /* file name in an external link; NULL: not an external link */
    char *link_object;    /* data set in that file; NULL: not an external link */
    unsigned long file;   /* identifies the data set, together with `address` */
    unsigned long long address;
};

struct h5_list {
    int count;
    struct h5_entry *entries; /* sorted by name */
    int broken;               /* links that lead nowhere */
    char *first_broken;       /* name and fault of the first of them; NULL: none */
    int outside;         /* links that a guard refused: they lead out of the file's folder, or to no regular file */
    char *first_outside; /* name of the first of them; NULL: none */
    int damaged;         /* objects that cannot be read, and groups whose links cannot */
    char *first_damaged; /* name and fault of the first of them; NULL: none */
    int64_t file;        /* hid_t of the file, which stays open until h5_list_free, as HDF5 opens it faster again */
};

/* Lists the data sets of a file at and below `object` ("/": all), each under every link that leads to it, including
 * links to other files of its folder. STATUS_USAGE: the file or object does not exist; the message has the nearest
 * name. The caller frees the list with h5_list_free, whatever the status. */
enum status h5_list(const char *path, const char *object, struct h5_list *list, struct error *error);
/* Sets the axis names of the given entries, from scales, labels, and attributes of xarray, openPMD and NeXus. */
void h5_list_axes(const char *path, const struct h5_list *list, struct h5_entry *const which[], int count);
void h5_list_free(struct h5_list *list);

#endif
