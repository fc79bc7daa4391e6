/* h5claims.c - reads the first bytes of a file itself, and opens the file only if their claims fit into it. */
#include "h5claims.h"

#include "../../base/fail.h"
#include "../../base/text.h"
#include "../h5/h5file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CHUNKS (INT64_C(1) << 20)

/* ---- a file's first bytes ---------------------------------------------------------------------------------------- */

uint64_t h5_little_endian(const unsigned char *bytes, int count) {
    uint64_t value = 0;
    while (count-- > 0) value = value << 8 | bytes[count];
    return value;
}

/* A superblock up to version 1, at byte 0, 512, 1024, 2048..., contains the address of a driver information block,
 * which states its own length. Returns 0: valid; -1: that block extends beyond the file; else the errno of a failed
 * read. */
static int superblock_fault(int descriptor, uint64_t file_bytes) {
    /* Position of the version and of the size of addresses; index of that address; most bytes of an address. */
    enum { VERSION = 8, ADDRESS_BYTES = 13, DRIVER_ADDRESS = 3, MAX_ADDRESS_BYTES = 8 };
    unsigned char superblock[64], driver[16];
    for (uint64_t at = 0; at + sizeof superblock <= file_bytes; at = at ? 2 * at : 512) {
        ssize_t got = pread(descriptor, superblock, sizeof superblock, (off_t)at);
        if (got < 0) return errno;
        if (got != sizeof superblock || memcmp(superblock, "\211HDF\r\n\032\n", 8) != 0) continue;
        if (superblock[VERSION] > 1 || superblock[ADDRESS_BYTES] > MAX_ADDRESS_BYTES) return 0;
        int address_bytes = superblock[ADDRESS_BYTES], addresses_at = superblock[VERSION] ? 28 : 24;
        uint64_t offset = h5_little_endian(superblock + addresses_at + DRIVER_ADDRESS * address_bytes, address_bytes);
        if (offset > file_bytes) return 0; /* the file has no such block: this is the undefined address */
        got = pread(descriptor, driver, sizeof driver, (off_t)(at + offset));
        if (got < 0) return errno;
        bool fits = got != sizeof driver || at + offset + sizeof driver + h5_little_endian(driver + 4, 4) <= file_bytes;
        return fits ? 0 : -1;
    }
    return 0;
}

/* Removes "./" at the beginning and "/./", because HDF5 refuses a data set that is open by another spelling of its
 * folder. The caller frees. */
static char *plain_path(const char *path) {
    while (strncmp(path, "./", 2) == 0) path += 2 + strspn(path + 2, "/");
    char *plain = must_strdup(path);
    for (char *at; (at = strstr(plain, "/./"));) memmove(at, at + 2, strlen(at + 2) + 1);
    return plain;
}

/* Opens a file even if its integers use few of their bits: HDF5 1.14.4 and later take that for damage. */
static hid_t open_relaxed(const char *path, unsigned flags, hid_t access) {
#if H5_VERSION_GE(1, 14, 4)
    OWNED_ID hid_t relaxed = access == H5P_DEFAULT ? H5Pcreate(H5P_FILE_ACCESS) : H5Pcopy(access);
    H5Pset_relax_file_integrity_checks(relaxed, H5F_RFIC_UNUSUAL_NUM_UNUSED_NUMERIC_BITS);
    return H5Fopen(path, flags, relaxed);
#else
    return H5Fopen(path, flags, access);
#endif
}

/* Opens a file to read. If a SWMR writer has it open, reads what that has flushed. */
static hid_t open_or_follow(const char *path, hid_t access) {
    OWNED char *plain = plain_path(path);
    hid_t file = open_relaxed(plain, H5F_ACC_RDONLY, access);
    if (file >= 0 || !strstr(h5_error_text(), "already open for")) return file;
    OWNED char *reason = must_strdup(h5_error_text());
    file = open_relaxed(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access);
    if (file < 0) h5_set_error_text(reason);
    return file;
}

hid_t h5_open_to_read(const char *path, hid_t access) {
    struct stat about = {.st_size = 0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int fault = descriptor < 0 ? errno : 0; /* an errno, or -1 of superblock_fault */
    hid_t file = H5I_INVALID_HID;
    if (!fault && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode))
        fault = superblock_fault(descriptor, (uint64_t)about.st_size);
    if (descriptor >= 0) close(descriptor);
    if (fault)
        h5_set_error_text(fault < 0 ? "the driver information block is longer than the file" : strerror(fault));
    else
        file = open_or_follow(path, access);
    errno = fault > 0 ? fault : 0;
    return file;
}

/* ---- data sets --------------------------------------------------------------------------------------------------- */

/* The size of the file that contains a data set; 0: unknown. */
static double file_bytes(hid_t dataset) {
    char path[PATH_MAX] = "";
    struct stat about;
    H5Fget_name(dataset, path, sizeof path);
    return stat(path, &about) == 0 ? (double)about.st_size : 0;
}

/* STATUS_USAGE: the `bytes` bytes of a contiguous data set reach beyond the end of the file. */
static enum status check_extent(const struct h5_dataset *dataset, double bytes, const char *path, const char *name,
                                struct error *error) {
    haddr_t address = h5_extent_address(dataset->id);
    char text[32];
    if (address == HADDR_UNDEF || bytes == 0 || (double)address + bytes <= file_bytes(dataset->id)) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' is damaged: part of its %s lies beyond the end of the file", path, name,
                size_text(bytes, text));
}

/* STATUS_USAGE: a data set has more than MAX_CHUNKS chunks, and more than its file has bytes, `size`. */
static enum status check_chunks(const struct h5_dataset *dataset, double size, const char *path, const char *name,
                                struct error *error) {
    double chunks = 1;
    for (int i = 0; i < dataset->shape.rank - dataset->inner; i++)
        chunks *= (double)dataset->shape.size[i] / (double)dataset->chunk.size[i];
    if (chunks <= MAX_CHUNKS || chunks <= size) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s: '%s' claims %.3g chunks, more than the file has bytes; it is not read", path,
                name, chunks);
}

enum status h5_check_claims(const struct h5_dataset *dataset, const char *path, const char *name, double *stored_bytes,
                            struct error *error) {
    struct shape axes = h5_dataset_axes(dataset, &dataset->shape);
    double bytes = (double)shape_elements(&axes) * (double)dataset->element;
    double size = file_bytes(dataset->id);
    H5D_layout_t layout = H5Pget_layout(dataset->creation);
    *stored_bytes = INFINITY;
    if (dataset->scattered) return STATUS_OK;
    if (layout == H5D_CONTIGUOUS) TRY(check_extent(dataset, bytes, path, name, error));
    if (layout == H5D_CHUNKED && bytes > 0) TRY(check_chunks(dataset, size, path, name, error));
    *stored_bytes = fmin(size, (double)H5Dget_storage_size(dataset->id));
    return STATUS_OK;
}
