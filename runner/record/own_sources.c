/* own_sources.c - writes the sources of a job's own kernels. */
#include "own_sources.h"

#include "../compile/sources.h"
#include "../plan/plan_own.h"
#include "origin.h"

#include <stdio.h>
#include <string.h>

static enum status write_source(hid_t group, int number, const struct own_file *file, struct error *error) {
    char name[32];
    OWNED_ID hid_t dataset = H5I_INVALID_HID;
    const char *text = file->file->text;
    snprintf(name, sizeof name, "%d", number);
    TRY(results_write_text(group, name, text, strlen(text), &dataset, error));
    TRY(h5_set_text(dataset, "name", file->name, error));
    return h5_set_text(dataset, "sha256", file->file->sha256, error);
}

enum status results_write_sources(hid_t file, const struct plan *plan, struct error *error) {
    struct own_file *files;
    int count = plan_own_files(plan, &files);
    OWNED_ID hid_t group = H5I_INVALID_HID;
    enum status status = count > 0 ? h5_group(file, OWN_SOURCES, &group, error) : STATUS_OK;
    for (int i = 0; i < count && !status; i++) status = write_source(group, i, &files[i], error);
    plan_own_files_free(files, count);
    return status;
}
