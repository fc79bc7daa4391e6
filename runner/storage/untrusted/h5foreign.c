/* h5foreign.c - one table with the first bytes of each format. */
#include "h5fault.h"

#include "../../base/path.h"
#include "../../base/text.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES_READ = 512 };

/* What the file is, and a Python command that makes an HDF5 file of it. */
#define IS(what)   "is not an HDF5 file but " what
#define BY(python) ": `python3 -c \"import h5py, " python "\"` makes one"

/* The first entry that matches counts. */
static const struct {
    int at, length;
    const char *bytes;
    const char *is;
} formats[] = {
    {0, 4, "CDF\1", IS("a netCDF-3 file") ": `nccopy -k nc4 IN OUT` makes one"},
    {0, 4, "CDF\2", IS("a netCDF-3 file (64-bit offsets)") ": `nccopy -k nc4 IN OUT` makes one"},
    {0, 4, "CDF\5", IS("a netCDF file of the kind CDF-5") ": `nccopy -k nc4 IN OUT` makes one"},
    {0, 4, "\x0e\x03\x13\x01", IS("an HDF4 file") ": `h4toh5 IN OUT` makes one"},
    {0, 19, "MATLAB 5.0 MAT-file", IS("a MATLAB file of version 5") ": `save -v7.3` in MATLAB makes one"},
    {0, 6, "\x93NUMPY",
     IS("a NumPy array (.npy)") BY("numpy as np; h5py.File('OUT.h5', 'w')['x'] = np.load('IN.npy')")},
    {0, 40, "version https://git-lfs.github.com/spec/", IS("a pointer of Git LFS") ": `git lfs pull` fetches the file"},
    {0, 2, "\x1f\x8b", IS("gzip-compressed") ": `gunzip` it"},
    {0, 3, "BZh", IS("bzip2-compressed") ": `bunzip2` it"},
    {0, 6, "\3757zXZ", IS("xz-compressed") ": `unxz` it"},
    {0, 4, "\x28\xb5\x2f\xfd", IS("zstd-compressed") ": `unzstd` it"},
    {0, 4, "\x04\x22\x4d\x18", IS("LZ4-compressed") ": `unlz4` it"},
    {0, 4, "PK\3\4",
     IS("a zip archive") ": `unzip` it; if it holds NumPy arrays (.npz), `python3 -c \"import h5py, numpy as np; "
                         "h5py.File('OUT.h5', 'w').update(np.load('IN.npz'))\"` makes an HDF5 file of them"},
    {0, 4, "PK\5\6", IS("an empty zip archive")},
    {257, 5, "ustar", IS("a tar archive") ": `tar xf` it"},
    {0, 10,
     "SIMPLE  = ", IS("a FITS file") BY("astropy.io.fits as F; h5py.File('OUT.h5', 'w')['x'] = F.getdata('IN')")},
    {0, 4, "II*\0", IS("a TIFF image") BY("tifffile as T; h5py.File('OUT.h5', 'w')['x'] = T.imread('IN.tif')")},
    {0, 4, "MM\0*", IS("a TIFF image") BY("tifffile as T; h5py.File('OUT.h5', 'w')['x'] = T.imread('IN.tif')")},
    {0, 4, "II+\0", IS("a TIFF image") BY("tifffile as T; h5py.File('OUT.h5', 'w')['x'] = T.imread('IN.tif')")},
    {0, 4, "MM\0+", IS("a TIFF image") BY("tifffile as T; h5py.File('OUT.h5', 'w')['x'] = T.imread('IN.tif')")},
    {0, 8, "\x89PNG\r\n\x1a\n", IS("a PNG image")},
    {0, 3, "\xff\xd8\xff", IS("a JPEG image")},
    {0, 4, "PAR1",
     IS("a Parquet table") BY("pandas as p; h5py.File('OUT.h5', 'w')['x'] = p.read_parquet('IN').values")},
    {0, 6, "ARROW1",
     IS("an Arrow table") BY("pandas as p; h5py.File('OUT.h5', 'w')['x'] = p.read_feather('IN').values")},
    {0, 4, "GRIB", IS("a GRIB file") ": `grib_to_netcdf -k 3 -o OUT IN` makes one"},
    {0, 4, "\177ELF", IS("a program")},
    {0, 4, "%PDF", IS("a PDF document")},
    {0, 7, "SQLite ", IS("an SQLite database")},
    {0, 2, "\x80\x04", IS("a Python pickle")},
    {0, 2, "\x80\x05", IS("a Python pickle")},
    {0, 4, "OCHK", IS("a part of an HDF5 file")},
};

static const char web_page[] =
    IS("a web page (HTML)") ": the download got a page, often of a login or an error, in place of the file";
static const char text[] = IS("text") BY("numpy as np; h5py.File('OUT.h5', 'w')['x'] = np.loadtxt('IN', "
                                         "delimiter=',')");

/* Does the text begin with an HTML tag, after blanks? The case of letters does not count. */
static bool is_markup(const char *bytes) {
    static const char *const begins[] = {"<!doctype html", "<html", "<head", "<body"};
    bytes += strspn(bytes, " \t\r\n");
    for (int i = 0; i < 4; i++)
        if (strncasecmp(bytes, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

/* Are the bytes UTF-8 text? The last character may be cut off. */
static bool is_text(const char *bytes, size_t length) {
    for (size_t at = 0; at < length;) {
        int length_of_character = strchr("\n\r\t\f", bytes[at]) && bytes[at] ? 1 : text_shown(bytes + at, length - at);
        if (length_of_character == 0)
            return length == BYTES_READ && length - at < 4 && (unsigned char)bytes[at] >= 0xc0;
        at += (size_t)length_of_character;
    }
    return length > 0;
}

/* Is there a file of that name in the folder? */
static bool contains(const char *folder, const char *name) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < (int)sizeof path && access(path, F_OK) == 0;
}

/* What a folder is. */
static const char *folder_format(const char *path) {
    if (contains(path, ".zarray"))
        return "is a zarr array, not an HDF5 file" BY("zarr; h5py.File('OUT.h5', 'w')['x'] = zarr.open('IN')[...]");
    if (contains(path, ".zgroup") || contains(path, "zarr.json") || contains(path, ".zmetadata"))
        return "is a zarr directory, not an HDF5 file" BY(
            "zarr; h5py.File('OUT.h5', 'w').update({k: a[...] for k, a in zarr.open('IN').arrays()})");
    if (strcmp(path_suffix(path), ".parts") == 0)
        return "is the folder of parts of an output, not an HDF5 file; `tilerun show` of it prints how to complete it";
    return "is a directory, not an HDF5 file";
}

/* Reads the file's first bytes. Returns their number; negative: they cannot be read. */
static ssize_t read_first(const char *path, char bytes[BYTES_READ + 1]) {
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return descriptor < 0 ? -1 : pread(descriptor, bytes, BYTES_READ, 0);
}

const char *h5_foreign_format(const char *path) {
    char bytes[BYTES_READ + 1] = "";
    struct stat about;
    if (stat(path, &about) != 0) return NULL;
    if (S_ISDIR(about.st_mode)) return folder_format(path);
    ssize_t length = read_first(path, bytes);
    if (length == 0) return IS("empty") ": was its copy or download broken off?";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].at + formats[i].length <= length &&
            memcmp(bytes + formats[i].at, formats[i].bytes, (size_t)formats[i].length) == 0)
            return formats[i].is;
    if (length < 0) return NULL;
    if (is_markup(bytes)) return web_page;
    return is_text(bytes, (size_t)length) ? text : NULL;
}

const char *h5_driver_format(const char *path) {
    char bytes[BYTES_READ + 1] = "";
    ssize_t length = read_first(path, bytes);
    if (length > 0 && memmem(bytes, (size_t)length, "NCSAfami", 8))
        return "is the first file of an HDF5 family: `h5repart -family_to_sec2 NAME%d.h5 OUT.h5` joins its files";
    if (length > 0 && memmem(bytes, (size_t)length, "NCSAmult", 8))
        return "is one of several files of HDF5's driver 'split' or 'multi': copy its data sets into one file, in h5py "
               "from h5py.File(NAME, driver='split')";
    return NULL;
}
