/* space.c - compares the size of a job's outputs with the free space that statvfs reports for their folders. */
#include "space.h"

#include "../base/fail.h"
#include "../base/path.h"
#include "../base/text.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* The largest possible compression ratios: none 1, deflate 1032, LZF 88, zstd 128 KiB to 4 bytes. */
static const double largest_ratio[] = {1, 1032, 88, 32768};

/* The smallest possible size of a run's output in its part. */
static double output_bytes(const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    const struct operand *out = &task->geometry.out;
    double bytes = (double)shape_elements(&out->shape) * (double)dtype_size(plan->arrays[task->out].dtype);
    return bytes / largest_ratio[task->operation->run.compression];
}

/* Does a run write its output to a file? */
static bool writes_output(const struct plan *plan, const struct run *run) {
    const struct run_options *options = &plan->tasks[run->task].operation->run;
    if (run->skip) return false;
    if (options->verify != VERIFY_NONE) return true;
    return !run->kernel->is_roof && (options->store == STORE_ALL || plan->tasks[run->task].wanted);
}

/* Is the operation's result stored on the same file system as OUTPUT? */
static bool is_on_same_disk(const struct plan *plan, const struct job_operation *operation) {
    struct stat output, other;
    if (!operation->to_file) return true;
    OWNED char *folder = path_folder(plan->job->output), *to_folder = path_folder(operation->to_file);
    return !(stat(folder, &output) == 0 && stat(to_folder, &other) == 0 && output.st_dev != other.st_dev);
}

double space_needed(const struct plan *plan) {
    /* Bytes on OUTPUT's disk. kept: parts that stay until the end; peak: the most while the runs are computed; copied:
     * copies of parts in OUTPUT and in files of `to`; largest: the largest of these copies. */
    double kept = 0, peak = 0, copied = 0, largest = 0;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        enum job_store store = task->operation->run.store;
        bool has_result = false; /* assumes that the first run that is neither skipped nor a roof is right */
        for (int r = task->first_run; r < task->first_run + task->run_count; r++) {
            const struct run *run = &plan->runs[r];
            if (!writes_output(plan, run)) continue;
            double bytes = output_bytes(plan, run);
            if (kept + bytes > peak) peak = kept + bytes;
            if (run->kernel->is_roof) continue;
            bool keep = store == STORE_ALL || (!has_result && task->wanted);
            bool stored = store == STORE_ALL || (!has_result && store == STORE_FIRST);
            bool goes_to_file = !has_result && task->operation->to_file;
            has_result = true;
            if (keep) kept += bytes;
            bool on_this_disk = stored && (!goes_to_file || is_on_same_disk(plan, task->operation));
            if (on_this_disk) copied += bytes;
            if (goes_to_file && bytes <= SPACE_COPIED_BYTES) copied += bytes;
            if (on_this_disk && bytes > largest) largest = bytes;
        }
    }
    if (largest >= SPACE_ADOPT_BYTES) copied -= largest; /* its part becomes OUTPUT or a file of a `to` */
    return kept + copied > peak ? kept + copied : peak;
}

double space_elsewhere(const struct plan *plan, char **folder) {
    double bytes = 0;
    dev_t device = 0;
    struct stat about;
    *folder = NULL;
    for (int t = 0; t < plan->task_count; t++) {
        const struct task *task = &plan->tasks[t];
        if (task->run_count == 0 || is_on_same_disk(plan, task->operation)) continue;
        char *to_folder = path_folder(task->operation->to_file);
        if (stat(to_folder, &about) == 0 && (!*folder || about.st_dev == device)) {
            bytes += output_bytes(plan, &plan->runs[task->first_run]);
            device = about.st_dev;
        }
        if (*folder)
            free(to_folder);
        else
            *folder = to_folder;
    }
    return bytes;
}

/* ---- free space ---- */

/* Bytes on disk of the files in a folder and, with `deeper`, in its subfolders, which belong to shards. */
static double files_bytes(const char *path, bool deeper) {
    OWNED_FOLDER DIR *folder = opendir(path);
    double bytes = 0;
    struct stat about;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        if (fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(about.st_mode)) bytes += (double)about.st_blocks * 512; /* the unit of st_blocks */
        if (!deeper || !S_ISDIR(about.st_mode) || entry->d_name[0] == '.') continue;
        OWNED char *inner = must_printf("%s/%s", path, entry->d_name);
        bytes += files_bytes(inner, false);
    }
    return bytes;
}

bool space_available(const char *folder, double *bytes) {
    struct statvfs about;
    if (statvfs(folder, &about) != 0 || about.f_blocks == 0) return false;
    *bytes = (double)about.f_bavail * (double)about.f_frsize;
    return true;
}

/* STATUS_USAGE: the results that a `to` puts on another file system do not fit there. */
static enum status require_space_elsewhere(const struct plan *plan, struct error *error) {
    OWNED char *folder = NULL;
    char needed_text[32], free_text[32];
    double needed = space_elsewhere(plan, &folder), available = 0;
    if (!folder || !space_available(folder, &available) || needed <= available) return STATUS_OK;
    return fail(error, STATUS_USAGE, "results that `to` puts into %s need %s, but only %s are free", folder,
                size_text(needed, needed_text), size_text(available, free_text));
}

/* Fails with `status` unless `needed` bytes are free for OUTPUT, or nothing is known about its file system. `reuse`:
 * the files in OUTPUT.parts count as free. They are counted only if the answer depends on them, so that a thousand
 * shards do not all scan each other's folders. */
static enum status require_space(const struct plan *plan, double needed, bool reuse, const char *subject,
                                 enum status status, struct error *error) {
    const char *output = plan->job->output;
    OWNED char *folder = path_folder(output), *parts = must_printf("%s.parts", output);
    char needed_text[32], free_text[32];
    double available = 0;
    bool known = space_available(folder, &available);
    if (known && reuse && needed > available) available += files_bytes(parts, true);
    if (!known || needed <= available) return STATUS_OK;
    return fail(error, status, "output %s: %sneeds %s in %s, but only %s are free", output, subject,
                size_text(needed, needed_text), folder, size_text(available, free_text));
}

enum status space_check(const struct plan *plan, struct error *error) {
    TRY(require_space_elsewhere(plan, error));
    return require_space(plan, space_needed(plan), true, "", STATUS_USAGE, error);
}

enum status space_check_run(const struct plan *plan, const struct run *run, struct error *error) {
    if (!writes_output(plan, run)) return STATUS_OK;
    OWNED char *subject = must_printf("%s %s ", plan->tasks[run->task].operation->id, run->label);
    return require_space(plan, output_bytes(plan, run), false, subject, STATUS_IO, error);
}
