/* h5ids.h - no test leaves an HDF5 object open: for a group's setup and teardown. */
#ifndef TESTS_H5IDS_H
#define TESTS_H5IDS_H

#include <hdf5.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const struct {
    H5I_type_t type;
    const char *name;
} kinds_of_ids[] = {
    {H5I_FILE, "files"},        {H5I_GROUP, "groups"},    {H5I_DATATYPE, "data types"},       {H5I_DATASPACE, "spaces"},
    {H5I_DATASET, "data sets"}, {H5I_ATTR, "attributes"}, {H5I_GENPROP_LST, "property lists"}};
enum { KINDS_OF_IDS = sizeof kinds_of_ids / sizeof *kinds_of_ids };
static hsize_t ids_before[KINDS_OF_IDS];

static inline int ids_begin(void **state) {
    H5open();
    for (int i = 0; i < KINDS_OF_IDS; i++) H5Inmembers(kinds_of_ids[i].type, &ids_before[i]);
    return 0;
}

static inline int ids_end(void **state) {
    hsize_t count = 0;
    int more = 0;
    for (int i = 0; i < KINDS_OF_IDS; i++) {
        H5Inmembers(kinds_of_ids[i].type, &count);
        if (count == ids_before[i]) continue;
        printf("%s: %d left open\n", kinds_of_ids[i].name, (int)count - (int)ids_before[i]);
        more = 1;
    }
    return more;
}

#endif
