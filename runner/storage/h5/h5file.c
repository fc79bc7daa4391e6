/* h5file.c - implements the HDF5 file driver for all files that tilerun writes: HDF5 calls its functions to open, read
 * and write a file. HDF5 (at least 1.10) crashes in its own clean-up when a disk becomes full, so the driver hides
 * write errors from HDF5: it keeps the errno of the first failed write and from then on reports success. h5_write and
 * h5_close_file check that errno, and the file is then discarded.
 *
 * The driver also finds the addresses of chunks. H5Dget_chunk_info and H5Dget_chunk_info_by_coord walk all chunks on
 * each call (in 1.10: 26 s for 65536 chunks, here 0.06 s), and whether their addresses include a user block depends on
 * the version. H5Dread_chunk goes straight to its chunk. So a probe lets HDF5 read the chunk, while the driver only
 * records the address and moves no bytes. In the same way H5Dwrite_chunk allocates a chunk that another thread then
 * writes. */
#include "h5type.h"

#include "../../base/fail.h"
#include "../../base/file_io.h"
#include "h5file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

struct file {
    H5FD_t base;            /* must be first: HDF5 casts its address */
    haddr_t allocated, end; /* end of the address space that HDF5 has allocated; size of the file */
    int descriptor;
    bool reads;               /* opened for reading */
    int failure;              /* errno of the first failed write; 0: none */
    int *last_failure;        /* receives `failure` at the close, which may write; NULL: unused */
    const void *probe_buffer; /* buffer of a probe: transfers from or to it only record their address; NULL: no probe */
    haddr_t probe_address;
    size_t probe_bytes;
};

/* If a call has failed, keeps its errno as the file's first failure. */
static void keep_errno(struct file *file, bool failed) {
    if (failed && file->failure == 0) file->failure = errno ? errno : EIO;
}

/* The driver's function that HDF5 calls to create or open a file. NULL: it failed. */
static H5FD_t *file_open(const char *path, unsigned flags, hid_t access, haddr_t largest) {
    (void)access;
    (void)largest;
    struct stat about;
    int create = flags & H5F_ACC_CREAT ? O_CREAT : 0;
    int descriptor = open(path, (flags & H5F_ACC_RDWR ? O_RDWR | O_NOFOLLOW : O_RDONLY) | create | O_CLOEXEC, 0666);
    if (descriptor < 0) return NULL;
    struct file *file = calloc(1, sizeof *file);
    bool bad = !file || fstat(descriptor, &about) != 0;
    /* Do not use O_TRUNC: ext4 takes it for the replacement of a file, and writes the whole file to the disk at the
     * close. */
    if (!bad && flags & H5F_ACC_TRUNC && about.st_size > 0)
        bad = ftruncate(descriptor, 0) != 0 || fstat(descriptor, &about) != 0;
    if (bad) {
        free(file);
        close(descriptor);
        return NULL;
    }
    file->descriptor = descriptor;
    file->reads = !(flags & H5F_ACC_RDWR);
    file->end = (haddr_t)about.st_size;
    return &file->base;
}

static herr_t file_close(H5FD_t *base) {
    struct file *file = (struct file *)base;
    if (file->last_failure) *file->last_failure = file->failure;
    close(file->descriptor);
    free(file);
    return 0;
}

static herr_t file_query(const H5FD_t *base, unsigned long *flags) {
    const bool reads = base && ((const struct file *)base)->reads; /* NULL: a query about the driver itself */
    *flags = (reads ? H5FD_FEAT_SUPPORTS_SWMR_IO : 0) | H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
             H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t file_get_allocated(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct file *)base)->allocated;
}

static herr_t file_set_allocated(H5FD_t *base, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((struct file *)base)->allocated = address;
    return 0;
}

static haddr_t file_get_end(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct file *)base)->end;
}

static herr_t file_get_handle(H5FD_t *base, hid_t access, void **handle) {
    (void)access;
    *handle = base;
    return 0;
}

/* Handles a transfer during a probe: records its address and size. true: it is the probed transfer, which moves no
 * bytes. */
static bool answer_probe(struct file *file, H5FD_mem_t type, haddr_t address, size_t size, const void *data) {
    if (!file->probe_buffer || type != H5FD_MEM_DRAW) return false;
    file->probe_address = address;
    file->probe_bytes = size;
    return data == file->probe_buffer;
}

/* Reads bytes; those beyond the end of the file are zeros. */
static herr_t file_read(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, void *data) {
    (void)transfer;
    struct file *file = (struct file *)base;
    if (answer_probe(file, type, address, size, data)) return 0;
    ssize_t got = file_read_at(file->descriptor, data, size, (off_t)address);
    if (got >= 0) memset((char *)data + got, 0, size - (size_t)got);
    return got < 0 ? -1 : 0;
}

/* Writes bytes. Always succeeds, because HDF5 could not close a file after a failed write: keeps the failure, after
 * which it writes nothing. */
static herr_t file_write(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size,
                         const void *data) {
    (void)transfer;
    struct file *file = (struct file *)base;
    if (answer_probe(file, type, address, size, data)) return 0;
    if (file->failure == 0) file->failure = file_write_at(file->descriptor, data, size, (off_t)address);
    if (address + size > file->end) file->end = address + size;
    return 0;
}

/* Gives the file the size that HDF5 has allocated. Always succeeds, and keeps a failure, as file_write does. */
static herr_t file_truncate(H5FD_t *base, hid_t transfer, hbool_t closing) {
    (void)transfer;
    (void)closing;
    struct file *file = (struct file *)base;
    if (file->end == file->allocated || file->failure) return 0;
    errno = 0;
    keep_errno(file, ftruncate(file->descriptor, (off_t)file->allocated) != 0);
    file->end = file->allocated;
    return 0;
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = 513, /* HDF5 reserves a range with this number for applications */
#endif
    .name = "tilerun",
    .maxaddr = HADDR_MAX / 2,
    .fc_degree = H5F_CLOSE_WEAK,
    .open = file_open,
    .close = file_close,
    .query = file_query,
    .get_eoa = file_get_allocated,
    .set_eoa = file_set_allocated,
    .get_eof = file_get_end,
    .get_handle = file_get_handle,
    .read = file_read,
    .write = file_write,
    .truncate = file_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* The driver's state of the file that contains an object; that file must have been opened with this driver. */
static struct file *find_file(hid_t object) {
    void *file = NULL;
    OWNED_ID hid_t id = H5Iget_file_id(object);
    H5Fget_vfd_handle(id, H5P_DEFAULT, &file);
    return file;
}

int h5_descriptor(hid_t object, int **failure) {
    struct file *file = find_file(object);
    if (failure) *failure = &file->failure;
    return file->descriptor;
}

/* Creates a file access list for this driver, which is registered as `*id`; negative: out of memory. Without the list
 * HDF5 would use its own driver, whose struct find_file() would misread. */
static hid_t create_access(hid_t *id) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    *id = H5FDregister(&driver);
    if (access >= 0 && *id >= 0 && H5Pset_driver(access, *id, NULL) >= 0) return access;
    if (access >= 0) H5Pclose(access);
    if (*id >= 0) H5FDunregister(*id);
    return H5I_INVALID_HID;
}

/* ---- addresses of chunks ---- */

/* Begins a probe of a chunk, which ends when file->probe_buffer is NULL again. */
static struct file *begin_probe(hid_t dataset, const void *probe_buffer) {
    struct file *file = find_file(dataset);
    file->probe_buffer = probe_buffer;
    file->probe_address = HADDR_UNDEF;
    file->probe_bytes = 0;
    return file;
}

/* Is the chunk not stored? Then HDF5 gives its fill value for an element without reading raw data. */
static bool is_absent(hid_t dataset, const hsize_t corner[]) {
    OWNED_ID hid_t type = H5Dget_type(dataset), file_space = H5Dget_space(dataset);
    OWNED_ID hid_t memory_space = H5Screate(H5S_SCALAR);
    void *element = calloc(1, H5Tget_size(type)); /* of another program's table it may have any size */
    bool read = element && H5Sselect_elements(file_space, H5S_SELECT_SET, 1, corner) >= 0 &&
                H5Dread(dataset, type, memory_space, file_space, H5P_DEFAULT, element) >= 0;
    if (read) H5Dvlen_reclaim(type, memory_space, H5P_DEFAULT, element);
    free(element);
    return read && find_file(dataset)->probe_address == HADDR_UNDEF;
}

haddr_t h5_extent_address(hid_t dataset) {
    /* Behind a user block H5Dget_offset gives an address where there is none. */
    return H5Dget_storage_size(dataset) > 0 ? H5Dget_offset(dataset) : HADDR_UNDEF;
}

enum status h5_find_chunk(hid_t dataset, const hsize_t corner[], struct h5_chunk_location *location,
                          struct error *error) {
    uint32_t mask = 0;
    char nothing[1];
    struct file *file = begin_probe(dataset, nothing);
    bool found = H5Dread_chunk(dataset, H5P_DEFAULT, corner, &mask, nothing) >= 0;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", found ? "" : h5_error_text());
    bool absent = !found && is_absent(dataset, corner);
    file->probe_buffer = NULL;
    if (!found && !absent) return FAIL_CALL(error, STATUS_IO, "H5Dread_chunk", reason);
    *location = (struct h5_chunk_location){file->probe_address, file->probe_bytes, mask};
    return STATUS_OK;
}

enum status h5_allocate_chunk(hid_t dataset, const hsize_t corner[], size_t bytes, haddr_t *address,
                              struct error *error) {
    const char nothing[1] = {0};
    struct file *file = begin_probe(dataset, nothing);
    bool placed = H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, corner, bytes, nothing) >= 0;
    file->probe_buffer = NULL;
    if (!placed) return FAIL_CALL(error, STATUS_IO, "H5Dwrite_chunk", h5_error_text());
    if (file->probe_bytes != bytes)
        return FAIL_CALL(error, STATUS_IO, "H5Dwrite_chunk", "it wrote another number of bytes");
    *address = file->probe_address;
    return STATUS_OK;
}

bool h5_is_swmr(hid_t dataset) {
    OWNED_ID hid_t file = H5Iget_file_id(dataset);
    unsigned intent = 0;
    H5Fget_intent(file, &intent);
    return intent & H5F_ACC_SWMR_READ;
}

bool h5_is_settled(const struct h5_dataset *dataset, const struct stat *version) {
    char path[4096] = "";
    struct stat about = {.st_ino = 0};
    struct timespec now;
    if (dataset->scattered || h5_is_swmr(dataset->id)) return false;
    H5Fget_name(dataset->id, path, sizeof path); /* a link may have led to another file */
    clock_gettime(CLOCK_REALTIME, &now);
    double age =
        difftime(now.tv_sec, version->st_mtim.tv_sec) + 1e-9 * (double)(now.tv_nsec - version->st_mtim.tv_nsec);
    /* 2 s: the file system counts whole seconds; else a time stamp is at most a tick of the kernel's clock late. */
    double tick = version->st_mtim.tv_nsec == 0 ? 2.0 : 0.02;
    return stat(path, &about) == 0 && about.st_dev == version->st_dev && about.st_ino == version->st_ino && age > tick;
}

hid_t h5_open_lookup(hid_t dataset, int descriptor) {
    char path[64];
    H5O_info_t about;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (H5Oget_info2(dataset, &about, H5O_INFO_BASIC) < 0) return H5I_INVALID_HID;
    hid_t id, look = H5I_INVALID_HID;
    OWNED_ID hid_t access = create_access(&id);
    if (access < 0) return look;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY | (h5_is_swmr(dataset) ? H5F_ACC_SWMR_READ : 0), access);
    if (file >= 0) look = H5Oopen_by_addr(file, about.addr);
    if (file >= 0) H5Fclose(file); /* HDF5 keeps the file open while objects in it are open */
    if (look < 0) H5FDunregister(id);
    return look;
}

void h5_close_lookup(hid_t look) {
    if (look < 0) return;
    hid_t registered = find_file(look)->base.driver_id;
    H5Dclose(look);
    H5FDunregister(registered);
}

/* ---- files ---- */

/* Creates or opens a file for writing, with tilerun's driver. */
static enum status open_file(const char *path, bool create, hid_t *file, struct error *error) {
    *file = H5I_INVALID_HID;
    if (create) unlink(path);
    int make = create ? O_CREAT | O_EXCL : 0; /* fail if another process has created a file or a link there */
    int descriptor = open(path, O_RDWR | make | O_NOFOLLOW | O_CLOEXEC, 0666); /* only to get an errno */
    if (descriptor < 0)
        return fail(error, STATUS_IO, "%s: cannot be %s: %s", path, create ? "created" : "opened", strerror(errno));
    close(descriptor);
    hid_t id;
    OWNED_ID hid_t access = create_access(&id), creation = h5_creation(H5P_FILE_CREATE);
    errno = 0;
    /* Not H5F_LIBVER_LATEST: with these bounds a file whose writer is killed stays readable up to its last flush. */
    if (access >= 0 && creation >= 0 && H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110) >= 0)
        *file = create ? H5Fcreate(path, H5F_ACC_TRUNC, creation, access) : H5Fopen(path, H5F_ACC_RDWR, access);
    if (*file >= 0) return STATUS_OK;
    fail(error, STATUS_IO, "%s: cannot be %s: %s", path, create ? "created" : "opened",
         errno ? strerror(errno) : h5_error_text());
    if (access >= 0) H5FDunregister(id);
    return STATUS_IO;
}

enum status h5_create_file(const char *path, hid_t *file, struct error *error) {
    return open_file(path, true, file, error);
}

enum status h5_reopen_file(const char *path, hid_t *file, struct error *error) {
    return open_file(path, false, file, error);
}

enum status h5_close_file(hid_t file, struct error *error) {
    struct file *under = find_file(file);
    hid_t registered = under->base.driver_id; /* unregistered after H5Fclose, which needs it */
    enum status status = STATUS_OK;
    char path[512] = "";
    struct stat about;
    int failure = 0;
    H5Fget_name(file, path, sizeof path);
    errno = EIO; /* reported if another program truncated the file */
    keep_errno(under, fstat(under->descriptor, &about) != 0 || (haddr_t)about.st_size < under->end);
    if (H5Fflush(file, H5F_SCOPE_LOCAL) < 0) status = FAIL_CALL(error, STATUS_IO, "H5Fflush", h5_error_text());
    errno = 0;
    int copy = dup(under->descriptor); /* some network file systems report a full disk only at a close */
    keep_errno(under, copy < 0 || close(copy) != 0);
    under->last_failure = &failure;
    if (H5Fclose(file) < 0 && !status) status = FAIL_CALL(error, STATUS_IO, "H5Fclose", h5_error_text());
    if (!status && failure) status = fail_write(error, path, failure);
    H5FDunregister(registered);
    return status;
}
