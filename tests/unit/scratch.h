/* scratch.h - a folder for the files of a test, made by make_folder and removed with what is in it by remove_folder:
 * set-up and teardown of a test or of a group, which leaves no HDF5 object open. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "../../runner/storage/h5/h5file.h"
#include "../../runner/storage/h5/h5io.h"
#include "h5ids.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[32];

static inline int make_folder(void **state) {
    h5_prepare();
    ids_begin(state);
    snprintf(folder, sizeof folder, "/tmp/tilerun-test.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) | ids_end(state);
}

/* The path of a file there; good until the next call. */
static inline const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Makes a file whose data set /x holds `data`. */
static inline void store_array(const char *path, enum dtype dtype, const struct shape *shape,
                               const struct h5_layout *layout, const void *data) {
    struct error failure = {.status = STATUS_OK};
    struct box all = box_whole(shape);
    struct h5_dataset *dataset;
    hid_t file;
    assert_int_equal(h5_create_file(path, &file, &failure), STATUS_OK);
    assert_int_equal(h5_create(file, "/x", dtype, shape, layout, &dataset, &failure), STATUS_OK);
    assert_int_equal(h5_write(dataset, &all, data, &failure), STATUS_OK);
    h5_close(&dataset);
    assert_int_equal(h5_close_file(file, &failure), STATUS_OK);
}

#endif
