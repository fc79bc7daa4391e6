/* h5newer.c - finds the version of the header message that HDF5 does not know. An object header consists of messages;
 * HDF5 reports that one has an unknown version, but not always which. So this module walks the messages itself, as the
 * HDF5 File Format Specification (III) defines them. */
#include "h5fault.h"

#include "../../base/fail.h"
#include "h5claims.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_HEADER_BYTES = 1 << 20, /* bytes; larger headers are not read */
    MAX_CHUNKS = 64,            /* continuation chunks that are walked */
    /* From the specification: */
    CONTINUATION = 0x10, /* message types */
    DATATYPE = 3,
    COMPLEX = 11, /* class of a data type */
    SHARED = 2    /* message flag: the data only refer to another object */
};

/* A header message, a text in the HDF5 error that is about it, and the first library to write each of its versions. */
static const struct kind {
    const char *in_error, *name;
    int message; /* message type; -1: this is not a header message */
    struct {
        int version;
        const char *since;
    } versions[2]; /* sorted by version */
} messages[] = {
    {"layout message", "layout message", 0x08, {{4, "1.10"}, {5, "2.0"}}},
    {"datatype message", "datatype message", DATATYPE, {{4, "1.12"}, {5, "2.0"}}},
    {"VDS heap information", "list of sources", -1, {{1, "2.0"}}},
    {"hyperslab selection", "selection", -1, {{3, "1.12"}}},
    {"dataspace", "dataspace message", 0x01, {{0}}},
    {"fill value message", "fill value message", 0x05, {{0}}},
    {"filter pipeline message", "filter message", 0x0b, {{0}}},
};

/* ---- the header -------------------------------------------------------------------------------------------------- */

/* The object header that is walked, and what is found in it. */
struct header {
    int descriptor;
    uint64_t base; /* where the HDF5 part of the file begins; addresses count from there */
    int version, flags;
    int message;      /* type of the message to find */
    int found, class; /* version of the message, and class of a data type; -1: not found */
    struct extent {
        uint64_t address, bytes;
    } chunks[MAX_CHUNKS]; /* continuation chunks to walk */
    int count;
};

/* Records a continuation chunk, or the version of the message to find. */
static void parse_message(struct header *header, int type, int flags, const unsigned char *data, uint64_t bytes) {
    if (type == CONTINUATION && bytes >= 16 && header->count < MAX_CHUNKS)
        header->chunks[header->count++] = (struct extent){h5_little_endian(data, 8), h5_little_endian(data + 8, 8)};
    if (type != header->message || bytes == 0 || flags & SHARED || header->found >= 0) return;
    header->found = type == DATATYPE ? data[0] >> 4 : data[0]; /* a data type: version and class in 4 bits each */
    header->class = data[0] & 15;
}

/* Walks the messages of one header chunk. */
static void walk(struct header *header, const unsigned char *at, uint64_t bytes) {
    /* Before its data a message has type, length and flags; in version 1 also 3 reserved bytes, and in version 2, if
     * flag 4 of the header is set, 2 bytes for the order of creation. */
    const bool old = header->version == 1;
    const uint64_t prefix = old ? 8 : header->flags & 4 ? 6 : 4;
    while (bytes >= prefix) {
        int type = old ? (int)h5_little_endian(at, 2) : at[0], flags = old ? at[4] : at[3];
        uint64_t length = h5_little_endian(at + (old ? 2 : 1), 2);
        at += prefix;
        bytes -= prefix;
        if (length > bytes) return;
        parse_message(header, type, flags, at, length);
        at += length;
        bytes -= length;
    }
}

/* Reads `bytes` bytes and walks the messages in them, without the first `skip` and the last `spare` bytes. */
static void walk_extent(struct header *header, uint64_t address, uint64_t bytes, uint64_t skip, uint64_t spare) {
    if (bytes > MAX_HEADER_BYTES || bytes < skip + spare) return;
    OWNED unsigned char *memory = must_malloc(bytes);
    ssize_t got = pread(header->descriptor, memory, bytes, (off_t)(header->base + address));
    if (got == (ssize_t)bytes) walk(header, memory + skip, bytes - skip - spare);
}

/* Walks the messages of an object header of version 1 or 2, and of its continuation chunks. */
static void walk_header(struct header *header, uint64_t address) {
    unsigned char head[64] = {0};
    uint64_t skip, bytes;
    if (pread(header->descriptor, head, sizeof head, (off_t)(header->base + address)) < 16) return;
    if (memcmp(head, "OHDR", 4) == 0) {
        header->version = head[4];
        header->flags = head[5];
        int size = 1 << (header->flags & 3); /* bytes of the field that states the length of the messages */
        skip = 6 + (header->flags & 32 ? 16 : 0) + (header->flags & 16 ? 4 : 0); /* 4 times, 2 limits for attributes */
        bytes = h5_little_endian(head + skip, size);
        skip += (uint64_t)size;
    } else {
        header->version = head[0];
        skip = 16;
        bytes = h5_little_endian(head + 8, 4);
    }
    if (header->version != 1 && header->version != 2) return;
    if (bytes <= MAX_HEADER_BYTES) walk_extent(header, address, skip + bytes, skip, 0);
    /* A continuation chunk of version 2 begins with "OCHK" and ends in a checksum. */
    const uint64_t frame = header->version == 1 ? 0 : 4;
    for (int i = 0; i < header->count; i++) /* walking adds chunks */
        walk_extent(header, header->chunks[i].address, header->chunks[i].bytes, frame, frame);
}

/* Finds the version of a message in the header of /name, which must be a hard link. */
static void find_version(struct header *header, hid_t file, const char *name) {
    H5L_info_t link;
    hsize_t base = 0;
    char path[4096] = "";
    OWNED_ID hid_t creation = H5Fget_create_plist(file);
    bool there = H5Lget_info(file, name, &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_HARD &&
                 H5Pget_userblock(creation, &base) >= 0 && H5Fget_name(file, path, sizeof path) > 0;
    if (!there) return;
    header->base = base;
    OWNED_DESCRIPTOR int descriptor = header->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) walk_header(header, link.u.address);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

/* The cause is the first of the errors in the text; only a "bad version" means a newer HDF5. */
char *h5_needs_newer(hid_t file, const char *name, const char *error_text) {
    if (!strstr(error_text, "bad version")) return NULL;
    char here[H5_VERSION_TEXT];
    const char *since = NULL, *got = strstr(error_text, ", got ");
    const struct kind *kind = NULL;
    const char *cause_ends = strstr(error_text, " < ");
    OWNED char *cause =
        must_printf("%.*s", cause_ends ? (int)(cause_ends - error_text) : (int)strlen(error_text), error_text);
    for (size_t i = 0; i < sizeof messages / sizeof *messages && !kind; i++)
        if (strstr(cause, messages[i].in_error)) kind = &messages[i];
    struct header header = {.message = kind ? kind->message : -1, .found = got ? atoi(got + strlen(", got ")) : -1};
    if (kind && kind->message >= 0 && header.found < 0) find_version(&header, file, name);
    for (int i = 0; kind && i < 2; i++)
        if (kind->versions[i].since && (header.found < 0 || kind->versions[i].version == header.found))
            since = kind->versions[i].since;
    if (header.found < 0 && since && kind->versions[1].since) since = NULL; /* either version may be the cause */
    h5_version(here);
    OWNED char *version = header.found >= 0 ? must_printf(" version %d", header.found) : must_strdup("");
    OWNED char *what = kind ? must_printf("%s%s", kind->name, version) : must_strdup(cause);
    bool is_complex = kind && kind->message == DATATYPE && header.class == COMPLEX; /* a type of HDF5 2.0 */
    return must_printf("needs %s%s (%s); this is %s; %s", since ? "HDF5 " : "a later HDF5", since ? since : "", what,
                       here,
                       is_complex ? "h5py's `new['x'] = old['x'][()]` makes a copy it can read"
                                  : "`h5repack` makes a copy it can read");
}
