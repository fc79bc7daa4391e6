/* limits_file.c - writes measured limits as text into a file, and reads them back. */
#include "limits_file.h"

#include "../base/fail.h"
#include "../base/file_io.h"
#include "../base/host.h"
#include "../base/path.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define SCHEMA      3
#define MAX_BYTES   (1 << 20) /* a larger file is not a limits file */
#define OLD_SECONDS (14 * 86400)
#define LOCK_TURNS  200      /* pauses before a process stops waiting for another */
#define LOCK_NS     50000000 /* of each pause */
#define NONE        "-"      /* an unknown number */

#ifndef TILERUN_MEASURING
#define TILERUN_MEASURING      "unknown"
#define TILERUN_MEASURING_CUDA "unknown for CUDA"
#endif

const char *limits_program(enum kernel_device kind) {
    return kind == DEVICE_CUDA ? TILERUN_MEASURING_CUDA : TILERUN_MEASURING;
}

/* ---- writing the text -------------------------------------------------------------------------------------------- */

/* The first lines of a file that is valid for this program, host and device. */
static char *heading(const struct device_facts *facts, const char *program) {
    char host[256] = "";
    bool is_cpu = facts->kind == DEVICE_CPU; /* a process may have only a part of it */
    gethostname(host, sizeof host - 1);
    return must_printf("tilerun-limits %d\nprogram %s\nhost %s\ndevice %s %s %d\ncores %d cache %lld\n", SCHEMA,
                       program, host, facts->name, facts->uuid, facts->multiprocessors,
                       is_cpu ? host_core_count("/sys/devices/system/cpu", NULL) : 0,
                       is_cpu ? (long long)facts->cache_bytes : 0);
}

#define NUMBER(name)                                                                                                   \
    { #name, offsetof(struct device_limits, name) }
static const struct {
    const char *name;
    size_t at;
} numbers[] = {NUMBER(memory_bytes_per_s), NUMBER(cached_copy_bytes_per_s), NUMBER(cached_read_bytes_per_s),
               NUMBER(upload_bytes_per_s), NUMBER(download_bytes_per_s),    NUMBER(launch_s),
               NUMBER(cache_bytes)};
#define NUMBERS (sizeof numbers / sizeof *numbers)

/* The member of limits that numbers[i] names. */
static double *number_of(const struct device_limits *limits, size_t i) {
    return (double *)(void *)((char *)limits + numbers[i].at);
}

/* Writes a line with a number, or NONE if it is not positive and finite. */
static void print_number(FILE *to, const char *name, double value) {
    if (value > 0 && isfinite(value))
        fprintf(to, "%s %.9g\n", name, value);
    else
        fprintf(to, "%s " NONE "\n", name);
}

/* The text of a file: heading, numbers, checksum. The caller frees. */
static char *text_of(const struct device_facts *facts, const char *program, const struct device_limits *limits) {
    OWNED char *head = heading(facts, program);
    char *text;
    FILE *to = must_stream(&text);
    fputs(head, to);
    fprintf(to, "measured %s\n", limits->measured);
    for (size_t i = 0; i < NUMBERS; i++) print_number(to, numbers[i].name, *number_of(limits, i));
    for (int product = 0; product < LIMITS_PRODUCTS; product++)
        print_number(to, limits_product_name(product), limits->flops_per_s[product]);
    fflush(to);
    fprintf(to, "checksum %016llx\n", (unsigned long long)XXH3_64bits(text, strlen(text)));
    fclose(to);
    return text;
}

/* ---- reading the text -------------------------------------------------------------------------------------------- */

/* Reads a positive number, or NONE as NaN. false: the word is neither. */
static bool read_positive(const char *word, double *value) {
    char *end;
    *value = NAN;
    if (strcmp(word, NONE) == 0) return true;
    *value = strtod(word, &end);
    return *end == '\0' && end > word && *value > 0 && isfinite(*value);
}

/* Reads a line "NAME VALUE" into limits; changes the line. false: it is damaged. */
static bool read_line(struct device_limits *limits, char *line) {
    char *value = strchr(line, ' ');
    if (!value) return false;
    *value++ = '\0';
    for (size_t i = 0; i < NUMBERS; i++)
        if (strcmp(line, numbers[i].name) == 0) return read_positive(value, number_of(limits, i));
    for (int product = 0; product < LIMITS_PRODUCTS; product++)
        if (strcmp(line, limits_product_name(product)) == 0) return read_positive(value, &limits->flops_per_s[product]);
    if (strcmp(line, "measured") != 0 || strlen(value) >= sizeof limits->measured) return false;
    snprintf(limits->measured, sizeof limits->measured, "%s", value);
    return true;
}

/* Parses a file's text, and changes it. NULL: the file is damaged, or for another device or program. */
static struct device_limits *limits_of(char *text, const struct device_facts *facts, const char *program) {
    OWNED char *head = heading(facts, program);
    char *sum = strstr(text, "\nchecksum "), *rest = NULL, expected[32];
    size_t skip = strlen(head);
    if (!sum || strncmp(text, head, skip) != 0) return NULL;
    snprintf(expected, sizeof expected, "checksum %016llx\n",
             (unsigned long long)XXH3_64bits(text, (size_t)(sum + 1 - text)));
    if (strcmp(sum + 1, expected) != 0) return NULL;
    sum[1] = '\0';
    struct device_limits *limits = limits_create();
    bool good = true;
    for (char *line = strtok_r(text + skip, "\n", &rest); line && good; line = strtok_r(NULL, "\n", &rest))
        good = read_line(limits, line);
    if (good && limits->measured[0]) return limits;
    limits_free(limits);
    return NULL;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* The common beginning of the paths of a device's files, for all programs: FOLDER/HOST-DEVICE. NULL: there is no cache
 * folder. */
static char *stem_of(const struct device_facts *facts) {
    OWNED char *folder = path_cache();
    char host[256] = "", name[200];
    if (!folder) return NULL;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%.60s-%.60s-%s%d", host, facts->name, facts->uuid, facts->multiprocessors);
    for (char *c = name; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", *c)) *c = '_';
    return must_printf("%s/%s", folder, name);
}

char *limits_path(const struct device_facts *facts, const char *program) {
    OWNED char *stem = stem_of(facts), *head = heading(facts, program);
    XXH64_hash_t hash = XXH3_64bits(head, strlen(head));
    return stem ? must_printf("%s-%08llx.limits", stem, (unsigned long long)(hash >> 32)) : NULL;
}

struct device_limits *limits_load(const struct device_facts *facts, const char *program) {
    OWNED char *path = limits_path(facts, program), *text = NULL;
    /* O_NONBLOCK: a pipe at this path must not block the program. */
    OWNED_DESCRIPTOR int file = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat about;
    size_t length = 0;
    if (file < 0) return NULL;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode)) text = file_read_all(file, MAX_BYTES, &length);
    return text && length < MAX_BYTES ? limits_of(text, facts, program) : NULL;
}

/* Creates the cache folder and its folder tilerun, above the file at `path`, but nothing above these: a HOME that is
 * missing stays missing. Ignores errors: creating the file will report them. */
static void make_folders(const char *path) {
    OWNED char *tilerun = path_folder(path), *cache = path_folder(tilerun);
    mkdir(cache, 0777);
    mkdir(tilerun, 0777);
}

/* Removes the device's files that are older than OLD_SECONDS: those of replaced programs. The cache folder exists. */
static void remove_old(const struct device_facts *facts) {
    OWNED char *stem = stem_of(facts), *path = path_folder(stem);
    OWNED_FOLDER DIR *folder = opendir(path);
    struct stat about;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (strstr(entry->d_name, path_name(stem)) == entry->d_name &&
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
            about.st_mtime < time(NULL) - OLD_SECONDS)
            unlinkat(dirfd(folder), entry->d_name, 0);
}

int limits_lock(const struct device_facts *facts, const char *program) {
    OWNED char *path = limits_path(facts, program);
    if (!path) return -1;
    make_folders(path);
    OWNED char *around = path_folder(path);
    int folder = open(around, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct timespec pause = {0, LOCK_NS};
    for (int turn = 0; folder >= 0 && turn < LOCK_TURNS; turn++) {
        if (flock(folder, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
        nanosleep(&pause, NULL);
    }
    return folder;
}

bool limits_save(const struct device_facts *facts, const char *program, const struct device_limits *limits) {
    OWNED char *path = limits_path(facts, program);
    if (!path) {
        errno = ENOENT;
        return false;
    }
    make_folders(path);
    OWNED char *text = text_of(facts, program, limits), *temporary = must_printf("%s.XXXXXX", path);
    int file = mkostemp(temporary, O_CLOEXEC);
    bool saved = file >= 0 && file_write_at(file, text, strlen(text), 0) == 0 && fchmod(file, 0644) == 0;
    int first_errno = errno; /* of the first failure */
    if (file >= 0 && close(file) != 0 && saved) {
        saved = false;
        first_errno = errno;
    }
    if (saved && rename(temporary, path) != 0) {
        saved = false;
        first_errno = errno;
    }
    if (file >= 0 && !saved) unlink(temporary);
    if (saved) remove_old(facts);
    errno = first_errno;
    return saved;
}

bool limits_prove(const struct device_facts *facts, const char *program, struct device_limits *limits,
                  const struct kernel *kernel, const struct geometry *geometry, double seconds, char text[64]) {
    char ignored[64];
    if (!limits_raise(limits, kernel, geometry, seconds, text)) return false;
    OWNED_DESCRIPTOR int lock = limits_lock(facts, program);
    struct device_limits *stored = limits_load(facts, program);
    if (stored && limits_raise(stored, kernel, geometry, seconds, ignored)) limits_save(facts, program, stored);
    limits_free(stored);
    return true;
}
