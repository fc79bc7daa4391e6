/* provenance.c - writes the job, the machine and the sources of kernels into HDF5 files, and reads texts back. */
#include "provenance.h"

#include "../base/fail.h"
#include "../base/hash.h"
#include "../base/path.h"
#include "../compile/sources.h"
#include "../plan/plan_user_kernels.h"
#include "../storage/h5/h5attribute.h"
#include "../storage/h5/h5file.h"
#include "../storage/h5/h5scale.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* Is the text ASCII? Such a text is stored as ASCII, because Octave reads no UTF-8 strings. */
static bool is_ascii(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* The text becomes a scalar string of fixed length with a final NUL, without which netCDF4 reads beyond the end. */
enum status provenance_write_text(hid_t file, const char *name, const char *text, size_t length, hid_t *dataset,
                                  struct error *error) {
    OWNED_ID hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), creation = h5_creation(H5P_DATASET_CREATE);
    H5Tset_size(type, length + 1);
    H5Tset_cset(type, is_ascii(text, length) ? H5T_CSET_ASCII : H5T_CSET_UTF8);
    *dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (*dataset < 0 || H5Dwrite(*dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
        return FAIL_CALL(error, STATUS_IO, "H5Dwrite", h5_error_text());
    return STATUS_OK;
}

char *provenance_read_text(hid_t file, const char *name) {
    OWNED_ID hid_t id = H5Dopen2(file, name, H5P_DEFAULT);
    if (id < 0) return NULL;
    OWNED_ID hid_t type = H5Dget_type(id), space = H5Dget_space(id);
    bool is_text = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
    size_t length = is_text && H5Sget_simple_extent_npoints(space) == 1 ? H5Tget_size(type) : 0;
    OWNED char *text = must_malloc(length + 1);
    bool read = length > 0 && H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
    text[length] = '\0';
    return read ? disown(&text) : NULL;
}

/* Writes `notes` and `tags` as attributes of the file. */
static enum status write_tags(hid_t file, const struct job *job, struct error *error) {
    if (job->notes) TRY(h5_set_text(file, "notes", job->notes, error));
    for (int i = 0; i < job->tag_count; i++) {
        const char *name = job->tags[i].name;
        const struct yaml_node *value = job->tags[i].value;
        TRY(value->kind == YAML_INT     ? h5_set_integer(file, name, value->integer, error)
            : value->kind == YAML_FLOAT ? h5_set_real(file, name, value->real, error)
                                        : h5_set_text(file, name, value->text, error));
    }
    return STATUS_OK;
}

enum status provenance_write_report(const char *path, const char *profiler, const char *report, const char *sha256,
                                    struct error *error) {
    hid_t file = H5I_INVALID_HID;
    OWNED char *absolute = path_absolute(report);
    enum status status = h5_reopen_file(path, &file, error);
    if (!status) status = h5_set_text(file, "profiler", profiler, error);
    if (!status) status = h5_set_text(file, "profile", absolute, error);
    if (!status) status = h5_set_text(file, "profile_sha256", sha256, error);
    enum status closed = file >= 0 ? h5_close_file(file, error) : STATUS_OK;
    return status ? status : closed;
}

enum status provenance_write_job(hid_t file, const struct job *job, const char *key, struct error *error) {
    size_t length;
    const char *text = yaml_text(job->document, &length);
    if (job->verbatim) {
        text = job->verbatim;
        length = strlen(text);
    }
    char sha256[65];
    OWNED char *path = path_absolute(job->path);
    OWNED_ID hid_t verbatim = H5I_INVALID_HID, resolved = H5I_INVALID_HID;
    sha256_hex(text, length, sha256);
    TRY(provenance_write_text(file, "job", text, length, &verbatim, error));
    TRY(h5_set_text(verbatim, "path", path, error));
    TRY(h5_set_text(verbatim, "sha256", sha256, error));
    TRY(h5_set_text(verbatim, "name", job->name, error));

    length = strlen(job->resolved);
    sha256_hex(job->resolved, length, sha256);
    TRY(provenance_write_text(file, "job_resolved", job->resolved, length, &resolved, error));
    TRY(h5_set_text(resolved, "sha256", sha256, error));
    if (key) TRY(h5_set_text(resolved, "key", key, error));
    if (key) TRY(write_tags(file, job, error));
    return STATUS_OK;
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

enum status provenance_write_environment(hid_t file, const struct environment *environment, struct error *error) {
    OWNED_ID hid_t group = H5I_INVALID_HID;
    TRY(h5_group(file, "/environment", &group, error));
    for (int i = 0; i < environment->count; i++) {
        const struct environment_entry *entry = &environment->entries[i];
        TRY(entry->text       ? h5_set_text(group, entry->name, entry->text, error)
            : entry->integral ? h5_set_integer(group, entry->name, (int64_t)entry->number, error)
                              : h5_set_real(group, entry->name, entry->number, error));
    }
    return STATUS_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Writes a file of user kernels as the data set called `number`. */
static enum status write_source(hid_t group, int number, const struct kernel_file *file, struct error *error) {
    char name[32];
    OWNED_ID hid_t dataset = H5I_INVALID_HID;
    const char *text = file->file->text;
    snprintf(name, sizeof name, "%d", number);
    TRY(provenance_write_text(group, name, text, strlen(text), &dataset, error));
    TRY(h5_set_text(dataset, "name", file->name, error));
    return h5_set_text(dataset, "sha256", file->file->sha256, error);
}

enum status provenance_write_sources(hid_t file, const struct plan *plan, struct error *error) {
    FREED_BY(kernel_files_clear) struct kernel_files files = plan_kernel_files(plan);
    OWNED_ID hid_t group = H5I_INVALID_HID;
    if (files.count > 0) TRY(h5_group(file, OWN_SOURCES, &group, error));
    for (int i = 0; i < files.count; i++) TRY(write_source(group, i, &files.items[i], error));
    return STATUS_OK;
}
