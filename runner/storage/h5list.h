/* h5list.h - which data sets a file holds, whatever is in them: for people (`tilerun inspect`). Whether one can be an
 * input says array_describe (array.h). */
#ifndef RUNNER_H5LIST_H
#define RUNNER_H5LIST_H

#include "../base/fail.h"

struct h5_entry {
    char *name;    /* from the root: "/raw/frames" */
    char *type;    /* "int16", "int16 big-endian"; of what no job takes its class: "string" */
    char *shape;   /* "100x512x512"; "scalar", "empty" */
    char *layout;  /* "chunks 1x512x512"; else "contiguous", "compact", "virtual", "external" */
    char *filters; /* "shuffle, gzip 4", in the order in which writing applies them; "": none */
    double bytes; /* of its elements in memory, as the file has them; of strings and the like in the heap: unknown, 0 */
    double stored; /* of the file that they take; virtual and external ones: 0 */
};

struct h5_list {
    int count;
    struct h5_entry *entries; /* in the order of their names */
    int broken;               /* links that lead nowhere */
    char *first_broken;       /* NULL: none */
    int outside;              /* links that are not followed: they lead out of the file's folder, or to no file */
    char *first_outside;
};

/* Lists the data sets of a file at and below `object` ("/": all), each under every link that leads to it, links to
 * other files of its folder included. STATUS_USAGE: there is no such file or object, with the nearest name. The caller
 * frees the list with h5_list_free, whatever the status. */
enum status h5_list(const char *path, const char *object, struct h5_list *list, struct error *error);
void h5_list_free(struct h5_list *list);

#endif
