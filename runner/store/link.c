/* link.c - `merge --link`: outputs are virtual data sets of the results file, whose values stay in the parts.
 *
 * The mappings name parts by paths relative to OUTPUT's folder ("out.h5.parts/shard-0-of-2/KEY.h5"), where HDF5 looks
 * for them whatever the current folder is, so that both may be moved together. HDF5 shows fill values for a part that
 * is gone: the file's attribute `parts` has tilerun's readers look first (record/link.h). */
#include "../../kernels/core/axes.h"
#include "../base/fail.h"
#include "../storage/h5/h5virtual.h"
#include "../storage/untrusted/fence.h"
#include "../storage/untrusted/h5open.h"
#include "results.h"
#include <stdlib.h>
#include <string.h>

bool link_is_at(const char *path) {
    FENCE(path);
    struct error ignored = {STATUS_OK, ""};
    hid_t file;
    if (h5_open_file(path, &file, &ignored)) return false;
    bool linked = h5_is_linked(file);
    H5Fclose(file);
    return linked;
}

/* A path in OUTPUT.parts as it is seen from OUTPUT's folder. */
static const char *seen_from_output(const struct results *results, const char *path) {
    const char *slash = strrchr(results->folder.whole, '/');
    return slash ? path + (slash + 1 - results->folder.whole) : path;
}

enum status link_mark(const struct results *results, hid_t file, struct error *error) {
    return h5_set_text(file, H5_LINKED, seen_from_output(results, results->folder.whole), error);
}

enum status link_output(const struct results *results, const struct run *whole, hid_t file, const char *path,
                        struct error *error) {
    const struct task *task = &results->plan->tasks[whole->task];
    const struct shape shape = operand_array(&task->geometry.out);
    char **parts;
    struct box *places;
    int count = run_parts(results, whole, &parts, &places);
    struct h5_source *sources = must_malloc((size_t)count * sizeof *sources);
    for (int i = 0; i < count; i++)
        sources[i] = (struct h5_source){seen_from_output(results, parts[i]), "/output", places[i]};
    enum status status =
        h5_create_virtual(file, path, results->plan->arrays[task->out].dtype, &shape, sources, count, error);
    free(sources);
    run_parts_free(parts, places, count);
    return status;
}
