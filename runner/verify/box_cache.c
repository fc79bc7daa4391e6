/* box_cache.c - keeps in host memory the boxes of inputs and output that verification needs: copied while the run is
 * streamed, or read from files later. */
#include "box_cache.h"

#include "../../kernels/core/axes.h"
#include "../../kernels/core/cpu.h"
#include "../base/fail.h"
#include "../plan/plan_cost.h"
#include "../storage/elements/layout.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW_BYTES (INT64_C(64) << 20) /* most bytes of a window */
#define HUGE_PAGE    (INT64_C(2) << 20)
#define WALK         (INT64_C(1) << 20) /* elements that are read at a time; a larger chunk is read in one piece */

/* An entry of the cache: a box of an array, with axes merged as in an operand. It was requested, or is a window: the
 * whole chunks around the last box of an input, or of the output, that was read without a request. */
struct cached_box {
    int array;
    const struct operand *operand; /* belongs to the plan */
    struct box box;
    int64_t element_bytes, bytes;
    char *data;
    int64_t missing; /* number of elements that are not filled yet */
    bool is_window;
    int window_of; /* number of the window's input, or CACHED_OUTPUT */
    struct cached_box *next;
};

struct box_cache {
    const struct plan *plan;
    const struct run *run;
    int64_t free_bytes;
    struct cached_box *entries;
    const struct host_reader *reader;
};

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* Does `outer` contain the whole box? Not if the box is empty. */
static bool is_within(const struct box *box, const struct box *outer) {
    struct box both;
    return box_elements(box) > 0 && box_intersect(box, outer, &both) && box_equal(&both, box);
}

/* Enlarges `box` to the smallest box that contains both. */
static void unite(struct box *box, const struct box *other) {
    for (int axis = 0; axis < box->rank; axis++) {
        int64_t end = box->start[axis] + box->count[axis], other_end = other->start[axis] + other->count[axis];
        box->start[axis] = min_int64(box->start[axis], other->start[axis]);
        box->count[axis] = (end > other_end ? end : other_end) - box->start[axis];
    }
}

/* Copies `part` of the packed box `from_box` to its position in the packed box `to_box`. */
static void copy_part(const struct box *part, const struct box *from_box, const char *from, const struct box *to_box,
                      char *to, int64_t element_bytes) {
    struct walk walk = layout_between(part, from_box, to_box);
    int64_t source, target;
    for (int64_t row = 0; row < walk.rows; row++) {
        layout_row(&walk, row, &source, &target);
        memcpy(to + target * element_bytes, from + source * element_bytes, (size_t)(walk.length * element_bytes));
    }
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* The operand of that number among the run's inputs, or of its output (CACHED_OUTPUT). */
static const struct operand *operand_of(const struct box_cache *cache, int input) {
    const struct geometry *geometry = &cache->plan->tasks[cache->run->task].geometry;
    return input < 0 ? &geometry->out : &geometry->in[input];
}

/* The array of that input, or of the output. */
static int array_of(const struct box_cache *cache, int input) {
    const struct task *task = &cache->plan->tasks[cache->run->task];
    return input < 0 ? task->out : task->in[input];
}

/* Is the entry a box of that input of the run, or of its output? */
static bool belongs_to(const struct box_cache *cache, const struct cached_box *entry, int input) {
    return entry->array == array_of(cache, input) && operands_alike(entry->operand, operand_of(cache, input));
}

/* Allocates memory, in huge pages if possible: faulting in small pages takes as long as the verification. NULL: out of
 * memory. */
static char *allocate_box(int64_t bytes) {
    if (bytes < HUGE_PAGE) return malloc((size_t)bytes);
    void *memory = NULL;
    if (posix_memalign(&memory, (size_t)HUGE_PAGE, (size_t)bytes) != 0) return NULL;
    madvise(memory, (size_t)(bytes / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE);
    return memory;
}

/* Is the input the first operand of its array? Two operands of the same array share the entries of the first. */
static bool is_first(const struct box_cache *cache, int input) {
    return input <= 0 || array_of(cache, 0) != array_of(cache, input) ||
           !operands_alike(operand_of(cache, 0), operand_of(cache, input));
}

/* Is the entry's box the whole operand? */
static bool is_whole(const struct cached_box *entry) {
    struct box whole = box_whole(&entry->operand->shape);
    return box_equal(&entry->box, &whole);
}

/* Removes an entry from the list and frees it. */
static void drop_entry(struct box_cache *cache, struct cached_box **link) {
    struct cached_box *entry = *link;
    *link = entry->next;
    cache->free_bytes += entry->bytes;
    free(entry->data);
    free(entry);
}

/* Removes and frees the window of an input, if there is one. */
static void drop_window(struct box_cache *cache, int input) {
    for (struct cached_box **link = &cache->entries; *link; link = &(*link)->next)
        if ((*link)->is_window && (*link)->window_of == input) {
            drop_entry(cache, link);
            return;
        }
}

struct box_cache *box_cache_create(void) {
    return must_zeroed(sizeof(struct box_cache));
}

void box_cache_free(struct box_cache *cache) {
    if (!cache) return;
    while (cache->entries) drop_entry(cache, &cache->entries);
    free(cache);
}

void box_cache_begin(struct box_cache *cache, const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    bool is_new = !cache->plan, other_task = is_new || cache->run->task != run->task;
    cache->plan = plan;
    cache->run = run;
    if (is_new) cache->free_bytes = plan_held_bytes(plan);
    for (struct cached_box **link = &cache->entries; *link;) {
        bool kept = !other_task;
        for (int i = 0; i < task->geometry.inputs; i++)
            kept = kept || (belongs_to(cache, *link, i) && is_whole(*link) && (*link)->missing == 0);
        if (kept && !(*link)->is_window)
            link = &(*link)->next;
        else
            drop_entry(cache, link);
    }
}

/* The entry that contains the box, filled or not yet. NULL: there is no such entry. */
static struct cached_box *find_entry(struct box_cache *cache, int input, const struct box *box) {
    for (struct cached_box *entry = cache->entries; entry; entry = entry->next)
        if (belongs_to(cache, entry, input) && is_within(box, &entry->box)) return entry;
    return NULL;
}

/* The bytes of an element of that input, or of the stored output. */
static int64_t element_of(const struct box_cache *cache, int input) {
    bool stored = input < 0;
    return (int64_t)dtype_size(stored ? cache->plan->arrays[array_of(cache, input)].dtype
                                      : operand_of(cache, input)->dtype);
}

/* Adds an entry without contents. NULL: it exceeds the cache, or the host is out of memory. */
static struct cached_box *add_entry(struct box_cache *cache, int input, const struct box *box) {
    int64_t element_bytes = element_of(cache, input), bytes = box_elements(box) * element_bytes;
    char *data = bytes <= cache->free_bytes ? allocate_box(bytes) : NULL;
    if (!data) return NULL;
    struct cached_box *entry = must_malloc(sizeof *entry);
    *entry = (struct cached_box){.array = array_of(cache, input),
                                 .operand = operand_of(cache, input),
                                 .box = *box,
                                 .element_bytes = element_bytes,
                                 .bytes = bytes,
                                 .data = data,
                                 .missing = box_elements(box),
                                 .next = cache->entries};
    cache->entries = entry;
    cache->free_bytes -= bytes;
    return entry;
}

bool box_cache_request(struct box_cache *cache, int input, const struct box *box) {
    return box_elements(box) == 0 || find_entry(cache, input, box) || add_entry(cache, input, box);
}

bool box_cache_request_inputs(struct box_cache *cache) {
    int inputs = cache->plan->tasks[cache->run->task].geometry.inputs;
    const struct cached_box *before = cache->entries;
    bool fits = true;
    for (int i = 0; i < inputs && fits; i++) {
        struct box whole = box_whole(&operand_of(cache, i)->shape);
        fits = box_cache_request(cache, i, &whole);
    }
    while (!fits && cache->entries != before) drop_entry(cache, &cache->entries);
    return fits;
}

void box_cache_drop_output(struct box_cache *cache) {
    for (struct cached_box **link = &cache->entries; *link;)
        if (belongs_to(cache, *link, CACHED_OUTPUT))
            drop_entry(cache, link);
        else
            link = &(*link)->next;
}

/* ---- entries that are filled while the run is streamed ----------------------------------------------------------- */

/* Copies the parts of a box that unfilled entries contain. Since restart_entries no element may be passed twice. */
static void fill_entries(struct box_cache *cache, int input, const struct box *box, const char *data) {
    struct box part;
    for (struct cached_box *entry = cache->entries; entry; entry = entry->next) {
        if (entry->missing == 0 || !belongs_to(cache, entry, input) || !box_intersect(box, &entry->box, &part))
            continue;
        copy_part(&part, box, data, &entry->box, entry->data, entry->element_bytes);
        entry->missing -= box_elements(&part);
    }
}

/* Begins unfilled entries anew. */
static void restart_entries(void *context) {
    struct box_cache *cache = context;
    for (struct cached_box *entry = cache->entries; entry; entry = entry->next)
        if (entry->missing > 0) entry->missing = box_elements(&entry->box);
}

/* Takes what it needs of a box that the pass has read. */
static void copy_box(void *context, int input, const struct box *box, const void *data) {
    struct box_cache *cache = context;
    if (is_first(cache, input)) fill_entries(cache, input, box, data);
}

struct box_observer box_cache_observer(struct box_cache *cache) {
    return (struct box_observer){restart_entries, copy_box, cache};
}

/* ---- from files -------------------------------------------------------------------------------------------------- */

static const struct storage *storage_of(const struct box_cache *cache, int input) {
    const struct tiling *tiling = &cache->run->tiling;
    return input < 0 ? &tiling->out_storage : &tiling->in_storage[input];
}

/* The chunk boundaries of an input, or of the output, along its operation's axes. */
static struct grid grid_of(const struct box_cache *cache, int input) {
    const struct tiling *tiling = &cache->run->tiling;
    if (input < 0) return (struct grid){.grain = tiling->out_storage.chunk, .keep_grains = true};
    struct grid grid =
        plan_grid(&cache->plan->arrays[array_of(cache, input)], operand_of(cache, input), &tiling->in_storage[input]);
    grid.keep_grains = true;
    return grid;
}

/* Finds the smallest part of a piece that contains all that entries lack in it. false: they lack nothing there. */
static bool find_missing(const struct box_cache *cache, int input, const struct box *piece, struct box *wanted) {
    struct box part;
    bool any = false;
    for (const struct cached_box *entry = cache->entries; entry; entry = entry->next) {
        if (entry->missing == 0 || !belongs_to(cache, entry, input) || !box_intersect(piece, &entry->box, &part))
            continue;
        if (any)
            unite(wanted, &part);
        else
            *wanted = part;
        any = true;
    }
    return any;
}

/* The box of all chunks that a box touches, for an operand that is stored in chunks. */
static struct box chunks_around(const struct box_cache *cache, int input, const struct box *box) {
    const struct shape *shape = &operand_of(cache, input)->shape;
    struct grid grid = grid_of(cache, input);
    struct box around = *box;
    for (int axis = 0; axis < box->rank; axis++) {
        int64_t grain = grid.grain.size[axis], start = box->start[axis] + grid.shift[axis];
        int64_t end = ceil_div(start + box->count[axis], grain) * grain - grid.shift[axis];
        around.start[axis] = start / grain * grain - grid.shift[axis];
        if (around.start[axis] < 0) around.start[axis] = 0;
        around.count[axis] = min_int64(end, shape->size[axis]) - around.start[axis];
    }
    return around;
}

/* Fills the entries of an input, or of the output: reads what they lack in pieces that end at chunks. */
static enum status fill_input(struct box_cache *cache, int input, const struct host_reader *reader,
                              struct error *error) {
    struct box whole = box_whole(&operand_of(cache, input)->shape), wanted = whole;
    if (!find_missing(cache, input, &whole, &wanted)) return STATUS_OK;
    restart_entries(cache); /* a pass may have filled only a part of an entry */
    struct grid grid = grid_of(cache, input);
    const struct storage *storage = storage_of(cache, input);
    bool chunked = storage->filtered && storage->chunk.rank > 0 && !operand_is_plain(operand_of(cache, input));
    struct cut cut = cut_box(&wanted, &grid, WALK);
    int64_t max_elements = cut_max_elements(&cut);
    OWNED char *data = try_malloc((size_t)(max_elements * element_of(cache, input)));
    if (!data) return fail(error, STATUS_RUN, "no host memory to verify %lld elements", (long long)max_elements);
    for (int64_t number = 0; number < cut.pieces; number++) {
        struct box piece = cut_piece(&cut, number), part = piece;
        if (!find_missing(cache, input, &piece, &part)) continue;
        if (chunked) { /* of merged axes, a part of a chunk may consist of many boxes, which all decode the chunk */
            struct box around = chunks_around(cache, input, &part);
            box_intersect(&around, &piece, &part);
        }
        TRY(reader->read(reader->context, input, &part, data, error));
        fill_entries(cache, input, &part, data);
    }
    return STATUS_OK;
}

enum status box_cache_fill(struct box_cache *cache, const struct host_reader *reader, struct error *error) {
    int inputs = cache->plan->tasks[cache->run->task].geometry.inputs;
    for (int i = CACHED_OUTPUT; i < inputs; i++)
        if (is_first(cache, i)) TRY(fill_input(cache, i, reader, error));
    return STATUS_OK;
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* Replaces the window of an input, or of the output, by one for the chunks around a box. NULL: the chunks are not
 * encoded, hold no more than the box, or are too large. */
static struct cached_box *move_window(struct box_cache *cache, int input, const struct box *box) {
    const struct storage *storage = storage_of(cache, input);
    if (!storage->filtered || storage->chunk.rank == 0 || box_elements(box) == 0) return NULL;
    struct box around = chunks_around(cache, input, box);
    if (box_equal(&around, box) || box_elements(&around) * element_of(cache, input) > WINDOW_BYTES) return NULL;
    drop_window(cache, input);
    struct cached_box *window = add_entry(cache, input, &around);
    if (!window) return NULL;
    window->is_window = true;
    window->window_of = input;
    return window;
}

/* Reads a box from an entry or the window, which may move, and otherwise by the cache's reader. */
static enum status read_cached(void *context, int input, const struct box *box, void *data, struct error *error) {
    struct box_cache *cache = context;
    const struct host_reader *reader = cache->reader;
    struct cached_box *entry = find_entry(cache, input, box);
    if (entry && entry->missing > 0) entry = NULL;
    if (!entry && (entry = move_window(cache, input, box))) {
        enum status status = reader->read(reader->context, input, &entry->box, entry->data, error);
        if (status) return drop_window(cache, input), status;
        entry->missing = 0;
    }
    if (!entry) return reader->read(reader->context, input, box, data, error);
    copy_part(box, &entry->box, entry->data, box, data, entry->element_bytes);
    return STATUS_OK;
}

/* The elements of a box within a filled entry, if they are adjacent there; else NULL. */
static const void *lend_box(void *context, int input, const struct box *box) {
    struct box_cache *cache = context;
    const struct cached_box *entry = find_entry(cache, input, box);
    if (!entry || entry->missing > 0) return NULL;
    struct walk walk = layout_between(box, &entry->box, box);
    int64_t source, target;
    if (walk.rows != 1) return NULL;
    layout_row(&walk, 0, &source, &target);
    return entry->data + source * entry->element_bytes;
}

struct host_reader box_cache_reader(struct box_cache *cache, const struct host_reader *reader) {
    cache->reader = reader;
    return (struct host_reader){read_cached, cache, lend_box};
}
