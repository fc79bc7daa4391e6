/* limits_file.c - writes measured limits as text into a file, and reads them back. */
#include "limits_file.h"

#include "../base/fail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define SCHEMA      1
#define MOST_BYTES  (INT64_C(1) << 20) /* a larger file is not a limits file */
#define OLD_SECONDS (14 * 86400)
#define NONE        "-" /* an unknown number, or the operator of an operation without operators */

/* ---- writing the text -------------------------------------------------------------------------------------------- */

/* The first lines of a file that is valid for this program, host and device. */
static char *heading(const struct device_facts *facts, const char *program) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return must_printf("tilerun-limits %d\nprogram %s\nhost %s\ndevice %s %s %d\n", SCHEMA, program, host, facts->name,
                       facts->uuid, facts->multiprocessors);
}

static void put(FILE *to, const char *name, double value) {
    if (value > 0 && isfinite(value))
        fprintf(to, "%s %.9g\n", name, value);
    else
        fprintf(to, "%s " NONE "\n", name);
}

static const char *operator_name(const struct kernel *kernel, int number) {
    const char *const *names = operations[kernel->op]->operators;
    return names ? names[number] : NONE;
}

static void put_rate(FILE *to, const struct kernel_rate *rate) {
    fprintf(to, "rate %s %s %s %s", operations[rate->kernel->op]->name, rate->kernel->name, dtype_name(rate->dtype),
            operator_name(rate->kernel, rate->operator_));
    for (int i = 0; i < rate->count; i++) fprintf(to, " %.9g %.9g", rate->work[i], rate->seconds[i]);
    fprintf(to, "\n");
}

static char *text_of(const struct device_facts *facts, const char *program, const struct device_limits *limits) {
    char *text = NULL, *head = heading(facts, program);
    size_t length;
    FILE *to = must_stream(&text, &length);
    fputs(head, to);
    free(head);
    fprintf(to, "measured %s\n", limits->measured);
    put(to, "memory_bytes_per_s", limits->memory_bytes_per_s);
    put(to, "upload_bytes_per_s", limits->upload_bytes_per_s);
    put(to, "download_bytes_per_s", limits->download_bytes_per_s);
    put(to, "launch_s", limits->launch_s);
    put(to, "cache_bytes", limits->cache_bytes);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) put(to, dtype_name(dtype), limits->flops_per_s[dtype]);
    for (int i = 0; i < limits->count; i++) put_rate(to, &limits->rates[i]);
    fflush(to);
    fprintf(to, "checksum %016llx\n", (unsigned long long)XXH3_64bits(text, length));
    fclose(to);
    return text;
}

/* ---- reading the text -------------------------------------------------------------------------------------------- */

/* Reads a read_positive number, or NONE as NaN. */
static bool read_positive(const char *word, double *value) {
    char *end;
    *value = NAN;
    if (strcmp(word, NONE) == 0) return true;
    *value = strtod(word, &end);
    return *end == '\0' && end > word && *value > 0 && isfinite(*value);
}

static bool read_rate(struct device_limits *limits, char *words) {
    char *rest = NULL, *word[4];
    for (int i = 0; i < 4; i++)
        if (!(word[i] = strtok_r(i ? NULL : words, " ", &rest))) return false;
    const struct operation *operation = operation_find(word[0]);
    int op = 0, dtype = 0, number = 0;
    while (op < OP_COUNT && operations[op] != operation) op++;
    while (dtype < DTYPE_COUNT && strcmp(dtype_name(dtype), word[2]) != 0) dtype++;
    const struct kernel *kernel = op < OP_COUNT ? kernel_find(op, word[1]) : NULL;
    if (!kernel || dtype == DTYPE_COUNT) return false;
    while (operation->operators && operation->operators[number] && strcmp(operation->operators[number], word[3]) != 0)
        number++;
    if (operation->operators && !operation->operators[number]) return false;
    for (const char *work; (work = strtok_r(NULL, " ", &rest));) {
        const char *seconds = strtok_r(NULL, " ", &rest);
        double w, s;
        if (!seconds || !read_positive(work, &w) || !read_positive(seconds, &s)) return false;
        if (!limits_add_point(limits, kernel, dtype, number, w, s)) return false;
    }
    return limits_rate(limits, kernel, dtype, number) != NULL;
}

static bool read_line(struct device_limits *limits, char *line) {
    char *value = strchr(line, ' ');
    if (!value) return false;
    *value++ = '\0';
    struct {
        const char *name;
        double *to;
    } const numbers[] = {{"memory_bytes_per_s", &limits->memory_bytes_per_s},
                         {"upload_bytes_per_s", &limits->upload_bytes_per_s},
                         {"download_bytes_per_s", &limits->download_bytes_per_s},
                         {"launch_s", &limits->launch_s},
                         {"cache_bytes", &limits->cache_bytes}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(line, numbers[i].name) == 0) return read_positive(value, numbers[i].to);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (strcmp(line, dtype_name(dtype)) == 0) return read_positive(value, &limits->flops_per_s[dtype]);
    if (strcmp(line, "rate") == 0) return read_rate(limits, value);
    if (strcmp(line, "measured") != 0 || strlen(value) >= sizeof limits->measured) return false;
    snprintf(limits->measured, sizeof limits->measured, "%s", value);
    return true;
}

/* Parses a file's text, which it modifies. NULL: it is for another device or program, or damaged. */
static struct device_limits *limits_of(char *text, const struct device_facts *facts, const char *program) {
    char *head = heading(facts, program), *sum = strstr(text, "\nchecksum "), *rest = NULL;
    size_t skip = strlen(head);
    bool ours = sum && strncmp(text, head, skip) == 0;
    free(head);
    if (!ours) return NULL;
    char expected[32];
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

/* The cache folder: XDG_CACHE_HOME if it is an absolute path, as its specification demands, else HOME/.cache. */
static char *cache_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') return must_strdup(cache);
    return home && home[0] == '/' ? must_printf("%s/.cache", home) : NULL;
}

/* The common beginning of the paths of a device's files, for all programs: FOLDER/tilerun/HOST-DEVICE. */
static char *stem_of(const struct device_facts *facts) {
    char *folder = cache_folder(), host[256] = "", name[200];
    if (!folder) return NULL;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%.60s-%.60s-%s%d", host, facts->name, facts->uuid, facts->multiprocessors);
    for (char *c = name; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", *c)) *c = '_';
    char *stem = must_printf("%s/tilerun/%s", folder, name);
    free(folder);
    return stem;
}

char *limits_path(const struct device_facts *facts, const char *program) {
    char *stem = stem_of(facts);
    XXH64_hash_t hash = XXH3_64bits(program, strlen(program));
    char *path = stem ? must_printf("%s-%08llx.limits", stem, (unsigned long long)(hash >> 32)) : NULL;
    free(stem);
    return path;
}

struct device_limits *limits_load(const struct device_facts *facts, const char *program) {
    char *path = limits_path(facts, program), *text = NULL;
    /* O_NONBLOCK: a pipe at this path must not block the program. */
    int file = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat about;
    struct device_limits *limits = NULL;
    free(path);
    if (file < 0) return NULL;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size < MOST_BYTES) {
        text = must_malloc((unsigned long)about.st_size + 1);
        ssize_t length = read(file, text, (size_t)about.st_size);
        if (length > 0 && length == about.st_size) {
            text[length] = '\0';
            limits = limits_of(text, facts, program);
        }
    }
    free(text);
    close(file);
    return limits;
}

/* Creates the folders above a path. Ignores errors: creating the file will report them. */
static void make_folders(char *path) {
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
}

static bool write_all(int file, const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        ssize_t written = write(file, text, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text += written, left -= (size_t)written;
    }
    return true;
}

/* Removes the device's files that are older than OLD_SECONDS: those of replaced programs. */
static void remove_old(const struct device_facts *facts) {
    char *stem = stem_of(facts), *slash = strrchr(stem, '/');
    *slash = '\0';
    DIR *folder = opendir(stem);
    struct stat about;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (strstr(entry->d_name, slash + 1) == entry->d_name &&
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
            about.st_mtime < time(NULL) - OLD_SECONDS)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    free(stem);
}

bool limits_save(const struct device_facts *facts, const char *program, const struct device_limits *limits) {
    char *path = limits_path(facts, program);
    if (!path) return errno = ENOENT, false;
    make_folders(path);
    char *text = text_of(facts, program, limits), *temporary = must_printf("%s.XXXXXX", path);
    int file = mkostemp(temporary, O_CLOEXEC);
    bool saved = file >= 0 && write_all(file, text) && fchmod(file, 0644) == 0;
    int why = errno;
    if (file >= 0 && close(file) != 0 && saved) saved = false, why = errno;
    if (saved && rename(temporary, path) != 0) saved = false, why = errno;
    if (file >= 0 && !saved) unlink(temporary);
    if (saved) remove_old(facts);
    free(temporary);
    free(text);
    free(path);
    errno = why;
    return saved;
}
