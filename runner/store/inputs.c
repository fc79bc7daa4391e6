/* inputs.c - keeps the hashes of inputs in the parts that were made from them, so that `merge` and --resume need not
 * read the inputs. Each line of a part's attribute `inputs` describes one input, or one band of an input:
 *
 *     identity    XXH3-128 of the program, of what is read, and of the files' inodes, sizes and times
 *     hash        of the values; for a band also its share of the hash of the whole (reader.h)
 *     counts      numbers of missing, overflowed, wrapped, truncated, rounded and of all elements; "-1": not counted
 *
 * The last line is an XXH3-64 of the others. */
#include "results.h"

#include "../base/fail.h"
#include "../record/environment.h"
#include "../storage/untrusted/fence.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ATTRIBUTE "inputs"

/* ---- identities -------------------------------------------------------------------------------------------------- */

/* Hashes what changes if a file is written or replaced. */
static void add_file(XXH3_state_t *state, const struct stat *file) {
    const int64_t about[] = {(int64_t)file->st_ino,         (int64_t)file->st_size,
                             (int64_t)file->st_mtim.tv_sec, (int64_t)file->st_mtim.tv_nsec,
                             (int64_t)file->st_ctim.tv_sec, (int64_t)file->st_ctim.tv_nsec};
    XXH3_128bits_update(state, about, sizeof about);
}

/* Hashes what the reader reads and the versions of its files, so that equal identities mean equal elements. The files'
 * device numbers are left out, because each node may number devices differently. */
static XXH128_hash_t identity_of(const struct reader *reader) {
    const struct array *array = reader->array;
    const struct job_input *input = array->from_job;
    const struct array_band *band = &array->band;
    OWNED char *decoding = array->decoding ? decoding_key(array->decoding) : NULL;
    char shape[SHAPE_TEXT], full_shape[SHAPE_TEXT];
    OWNED char *text =
        must_printf("%s %s %s %s %s %s %s %s %s %d %d %d %" PRId64, tilerun_version, tilerun_sources, array->name,
                    array->label, input->dataset, input->field ? input->field : "", dtype_name(array->dtype),
                    shape_format(&array->shape, shape), decoding ? decoding : "", array->keeps_stored,
                    band->input ? band->axis : -1, array->parts ? input->concatenate : -1, band->first);
    XXH3_state_t *state = must_have(XXH3_createState());
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, text, strlen(text) + 1);
    shape_format(band->input ? &band->input->shape : &array->shape, full_shape);
    XXH3_128bits_update(state, full_shape, strlen(full_shape) + 1);
    XXH3_128bits_update(state, array->view.first, sizeof array->view.first);
    XXH3_128bits_update(state, array->view.step, sizeof array->view.step);
    XXH3_128bits_update(state, array->view.dropped, sizeof array->view.dropped);
    if (!array->parts) add_file(state, &array->version);
    for (int i = 0; array->parts && i < array->parts->count; i++) add_file(state, &array->parts->items[i].version);
    XXH128_hash_t identity = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return identity;
}

/* ---- in a part --------------------------------------------------------------------------------------------------- */

/* Appends the line of an input, unless it is generated, has no hash, or may change while it is read. */
static enum status describe_reader(struct reader *reader, char **text, struct error *error) {
    if (!reader->array->settled || !reader->array->from_job || !reader->hash[0]) return STATUS_OK;
    TRY(reader_share(reader, error));
    XXH128_hash_t identity = identity_of(reader);
    const struct casts *casts = &reader->casts;
    int64_t counted = reader_needs_casts(reader) ? -1 : reader->counted;
    must_append(text, "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64,
                identity.high64, identity.low64, reader->hash_high, reader->hash_low, reader->share_high,
                reader->share_low);
    must_append(text, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", casts->missing,
                casts->overflowed, casts->wrapped, casts->truncated, casts->rounded, counted);
    return STATUS_OK;
}

enum status inputs_write(hid_t part, const struct results *results, const struct task *task, struct error *error) {
    OWNED char *text = must_strdup("");
    for (int i = 0; i < task->geometry.inputs; i++) {
        bool again = i > 0 && task->in[i] == task->in[0];
        if (!again) TRY(describe_reader(&results->readers->items[task->in[i]], &text, error));
    }
    if (!*text) return STATUS_OK;
    must_append(&text, "%016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, strlen(text)));
    return h5_set_text(part, ATTRIBUTE, text, error);
}

/* ---- recalled ---------------------------------------------------------------------------------------------------- */

/* An input whose hash is wanted. */
struct wanted {
    XXH128_hash_t identity;
    struct reader *reader;
};

static int compare_wanted(const void *one, const void *other) {
    return XXH128_cmp(&((const struct wanted *)one)->identity, &((const struct wanted *)other)->identity);
}

/* Sets the hash in a line in all wanted readers of that input that lack a hash. Returns the number of these readers; 0
 * also if the line is damaged. */
static int recall_line(const char *line, struct wanted *wanted, int count) {
    struct wanted key = {.reader = NULL};
    struct reader stored = {.file = NULL};
    struct casts casts;
    int64_t counted;
    int recalled = 0;
    if (sscanf(line,
               "%16" SCNx64 "%16" SCNx64 " %16" SCNx64 "%16" SCNx64 " %16" SCNx64 "%16" SCNx64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &key.identity.high64, &key.identity.low64, &stored.hash_high, &stored.hash_low, &stored.share_high,
               &stored.share_low, &casts.missing, &casts.overflowed, &casts.wrapped, &casts.truncated, &casts.rounded,
               &counted) != 12)
        return 0;
    struct wanted *found = bsearch(&key, wanted, (size_t)count, sizeof *wanted, compare_wanted);
    while (found && found > wanted && compare_wanted(found - 1, &key) == 0) found--;
    for (; found && found < wanted + count && compare_wanted(found, &key) == 0; found++) {
        struct reader *reader = found->reader;
        if (reader->hash[0]) continue;
        reader->hash_high = stored.hash_high;
        reader->hash_low = stored.hash_low;
        reader_hash_set(reader);
        reader->share_high = stored.share_high;
        reader->share_low = stored.share_low;
        reader->shared = reader->array->band.input != NULL;
        if (counted >= 0 && reader_needs_casts(reader)) reader_casts_set(reader, &casts);
        recalled++;
    }
    return recalled;
}

/* Sets the wanted hashes that a part holds, and returns how many readers got one. Notes in part->checked whether all of
 * the part was hashed: part_open refuses a damaged part, in which HDF5 might loop forever, and hashes a part that was
 * synced only if it is small. */
static int recall_part(struct found_part *part, struct wanted *wanted, int count) {
    FENCE(part->path);
    bool synced = part_trailer(part->path) == TRAILER_SYNCED;
    OWNED_ID hid_t file = part_open(part->path, synced ? PART_LINKED_HASHED : ANY_SIZE);
    part->checked = file >= 0 && !synced;
    OWNED char *text = file < 0 ? NULL : h5_get_text(file, ATTRIBUTE);
    char *last = text; /* the last line, a hash of the lines before it */
    int found = 0;
    for (char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1) last = line;
    uint64_t check;
    bool good = text && sscanf(last, "%16" SCNx64, &check) == 1 && check == XXH3_64bits(text, (size_t)(last - text));
    for (char *line = text; good && line < last; line = strchr(line, '\n') + 1)
        found += recall_line(line, wanted, count);
    return found;
}

void store_recall_inputs(struct results *results) {
    const struct readers *readers = results->readers;
    OWNED struct wanted *wanted = must_malloc((size_t)readers->count * sizeof *wanted + 1);
    int count = 0;
    for (int i = 0; i < readers->count && results->found.count > 0; i++) {
        struct reader *reader = &readers->items[i];
        if (reader_needs_hash(reader) && reader->array->settled)
            wanted[count++] = (struct wanted){identity_of(reader), reader};
    }
    qsort(wanted, (size_t)count, sizeof *wanted, compare_wanted);
    for (int i = 0, unrecalled = count; i < results->found.count && unrecalled > 0; i++)
        unrecalled -= recall_part(&results->found.items[i], wanted, count);
}
