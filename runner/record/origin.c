/* origin.c - writes the job and the machine into HDF5 files, and reads them back. */
#include "origin.h"

#include "../base/clock.h"
#include "../base/fail.h"
#include "../storage/h5/h5scale.h"
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

const struct sample_kind sample_kinds[SAMPLE_KINDS] = {
    {"seconds", ""},
    {"turn", "_turn"},
    {"clock_mhz", "_clock_mhz"},
    {"power_w", "_power_w"},
    {"temperature_c", "_temperature_c"},
    {"marks", "_marks"},
};

char *results_path_of(const char *root, const char *label, const char *name) {
    return must_printf("/%s/%s%s%s", root, label, *label ? "/" : "", name);
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

char *results_absolute(const char *path) {
    char *resolved = must_realpath(path);
    return resolved ? resolved : must_strdup(path);
}

/* Is the text ASCII? It is then stored as such, because Octave reads no UTF-8 strings. */
static bool is_ascii(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* Writes a text as a scalar string of fixed length, with a final NUL: netCDF4 reads beyond the end if there is none. */
static enum status write_text(hid_t file, const char *name, const char *text, size_t length, hid_t *id,
                              struct error *error) {
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), creation = h5_creation(H5P_DATASET_CREATE);
    H5Tset_size(type, length + 1);
    H5Tset_cset(type, is_ascii(text, length) ? H5T_CSET_ASCII : H5T_CSET_UTF8);
    enum status status = STATUS_OK;
    *id = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (*id < 0 || H5Dwrite(*id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
        status = FAIL_CALL(error, STATUS_IO, "H5Dwrite", h5_error_text());
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
    return status;
}

char *results_read_text(hid_t file, const char *name) {
    hid_t id = H5Dopen2(file, name, H5P_DEFAULT);
    if (id < 0) return NULL;
    hid_t type = H5Dget_type(id);
    size_t length = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 ? H5Tget_size(type) : 0;
    char *text = must_malloc(length + 1);
    bool read = length > 0 && H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
    text[length] = '\0';
    H5Tclose(type);
    H5Dclose(id);
    if (read) return text;
    free(text);
    return NULL;
}

enum status results_write_job(hid_t file, const struct job *job, const char *key, struct error *error) {
    size_t length;
    const char *text = yaml_text(job->document, &length);
    if (job->verbatim) text = job->verbatim, length = strlen(text);
    char sha256[65], *path = results_absolute(job->path);
    hid_t verbatim = H5I_INVALID_HID, resolved = H5I_INVALID_HID;
    sha256_hex(text, length, sha256);
    enum status status = write_text(file, "job", text, length, &verbatim, error);
    if (!status) status = h5_set_text(verbatim, "path", path, error);
    if (!status) status = h5_set_text(verbatim, "sha256", sha256, error);
    if (!status) status = h5_set_text(verbatim, "name", job->name, error);

    length = strlen(job->resolved);
    sha256_hex(job->resolved, length, sha256);
    if (!status) status = write_text(file, "job_resolved", job->resolved, length, &resolved, error);
    if (!status) status = h5_set_text(resolved, "sha256", sha256, error);
    if (!status && key) status = h5_set_text(resolved, "key", key, error);
    if (verbatim >= 0) H5Dclose(verbatim);
    if (resolved >= 0) H5Dclose(resolved);
    free(path);
    return status;
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

enum status results_write_environment(hid_t file, const struct environment *environment, struct error *error) {
    hid_t group;
    enum status status = h5_group(file, "/environment", &group, error);
    if (status) return status;
    for (int i = 0; i < environment->count && !status; i++) {
        const struct environment_entry *entry = &environment->entries[i];
        if (entry->text)
            status = h5_set_text(group, entry->name, entry->text, error);
        else if (entry->integral)
            status = h5_set_integer(group, entry->name, (int64_t)entry->number, error);
        else
            status = h5_set_real(group, entry->name, entry->number, error);
    }
    H5Gclose(group);
    return status;
}
