/* gather.c - boxes that are held, and where they come from. */
#include "gather.h"

#include "../../kernels/core/axes.h"
#include "../../kernels/core/cpu.h"
#include "../base/fail.h"
#include "../plan/plan_cost.h"
#include "../storage/elements/layout.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW_BYTES (INT64_C(64) << 20) /* of whole chunks around a box */
#define HUGE_PAGE    (INT64_C(2) << 20)
#define WALK         (INT64_C(1) << 20) /* elements that are read at a time; or one chunk, if it has more */

/* A box of an array, as an operand has it. */
struct held {
    int array;
    const struct operand *operand; /* of the plan */
    struct box box;
    int64_t element, bytes;
    char *data;
    int64_t missing; /* elements that are not there yet */
    struct held *next;
};

struct gather {
    const struct plan *plan;
    const struct run *run;
    int64_t room; /* bytes that may still be held */
    struct held *held;
    struct held window[1 + MAX_INPUTS]; /* of the output and each input: the chunks around the last box that was read */
    const struct host_reader *reader;
};

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* What two boxes share; false: nothing. */
static bool shared(const struct box *one, const struct box *other, struct box *both) {
    *both = *one;
    for (int axis = 0; axis < one->rank; axis++) {
        int64_t end = min_int64(one->start[axis] + one->count[axis], other->start[axis] + other->count[axis]);
        if (other->start[axis] > one->start[axis]) both->start[axis] = other->start[axis];
        both->count[axis] = end - both->start[axis];
        if (both->count[axis] <= 0) return false;
    }
    return true;
}

static bool is_within(const struct box *box, const struct box *whole) {
    struct box both;
    return box_elements(box) > 0 && shared(box, whole, &both) && box_equal(&both, box);
}

/* The smallest box that has both. */
static void widen(struct box *box, const struct box *other) {
    for (int axis = 0; axis < box->rank; axis++) {
        int64_t end = box->start[axis] + box->count[axis], other_end = other->start[axis] + other->count[axis];
        box->start[axis] = min_int64(box->start[axis], other->start[axis]);
        box->count[axis] = (end > other_end ? end : other_end) - box->start[axis];
    }
}

/* Copies `part` of the packed box `from_box` to its place in the packed box `to_box`. */
static void copy_part(const struct box *part, const struct box *from_box, const char *from, const struct box *to_box,
                      char *to, int64_t element) {
    struct walk walk = layout_between(part, from_box, to_box);
    int64_t source, target;
    for (int64_t row = 0; row < walk.rows; row++) {
        layout_row(&walk, row, &source, &target);
        memcpy(to + target * element, from + source * element, (size_t)(walk.length * element));
    }
}

/* ---- what is held ------------------------------------------------------------------------------------------------ */

static const struct operand *operand_of(const struct gather *gather, int input) {
    const struct geometry *geometry = &gather->plan->tasks[gather->run->task].geometry;
    return input < 0 ? &geometry->out : &geometry->in[input];
}

static int array_of(const struct gather *gather, int input) {
    const struct task *task = &gather->plan->tasks[gather->run->task];
    return input < 0 ? task->out : task->in[input];
}

/* Is it of that input of the run? */
static bool is_of(const struct gather *gather, const struct held *held, int input) {
    return held->array == array_of(gather, input) && operands_alike(held->operand, operand_of(gather, input));
}

/* Memory in huge pages where the system has them: small ones cost as much as the check. NULL: there is none. */
static char *allocate(int64_t bytes) {
    if (bytes < HUGE_PAGE) return malloc((size_t)bytes);
    void *memory = NULL;
    if (posix_memalign(&memory, (size_t)HUGE_PAGE, (size_t)bytes) != 0) return NULL;
    madvise(memory, (size_t)(bytes / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE);
    return memory;
}

/* Two operands that are one array have its boxes in common: those of the first. */
static bool is_first(const struct gather *gather, int input) {
    return input <= 0 || array_of(gather, 0) != array_of(gather, input) ||
           !operands_alike(operand_of(gather, 0), operand_of(gather, input));
}

static bool is_whole(const struct held *held) {
    struct box whole = box_whole(&held->operand->shape);
    return box_equal(&held->box, &whole);
}

/* Takes the entry out of the list and frees it. */
static void drop(struct gather *gather, struct held **link) {
    struct held *held = *link;
    *link = held->next;
    gather->room += held->bytes;
    free(held->data);
    free(held);
}

static void close_window(struct gather *gather, int input) {
    struct held *window = &gather->window[1 + input];
    gather->room += window->bytes;
    free(window->data);
    *window = (struct held){.data = NULL};
}

static void close_windows(struct gather *gather) {
    for (int input = GATHER_OUT; input < MAX_INPUTS; input++) close_window(gather, input);
}

struct gather *gather_create(void) {
    struct gather *gather = must_malloc(sizeof *gather);
    *gather = (struct gather){.plan = NULL};
    return gather;
}

void gather_free(struct gather *gather) {
    if (!gather) return;
    while (gather->held) drop(gather, &gather->held);
    close_windows(gather);
    free(gather);
}

void gather_begin(struct gather *gather, const struct plan *plan, const struct run *run) {
    const struct task *task = &plan->tasks[run->task];
    bool begins = !gather->plan, another = begins || gather->run->task != run->task;
    gather->plan = plan;
    gather->run = run;
    if (begins) gather->room = plan_held_bytes(plan);
    close_windows(gather);
    for (struct held **link = &gather->held; another && *link;) {
        bool kept = false;
        for (int i = 0; i < task->geometry.inputs; i++)
            kept = kept || (is_of(gather, *link, i) && is_whole(*link) && (*link)->missing == 0);
        if (kept)
            link = &(*link)->next;
        else
            drop(gather, link);
    }
}

/* The entry that has, or will have, all of the box. NULL: none. */
static struct held *find(struct gather *gather, int input, const struct box *box) {
    struct held *window = &gather->window[1 + input];
    if (window->data && is_within(box, &window->box)) return window;
    for (struct held *held = gather->held; held; held = held->next)
        if (is_of(gather, held, input) && is_within(box, &held->box)) return held;
    return NULL;
}

/* Bytes of an element of that input, or of the output as it is stored. */
static int64_t element_of(const struct gather *gather, int input) {
    bool stored = input < 0;
    return (int64_t)dtype_size(stored ? gather->plan->arrays[array_of(gather, input)].dtype
                                      : operand_of(gather, input)->dtype);
}

bool gather_want(struct gather *gather, int input, const struct box *box) {
    int64_t element = element_of(gather, input), bytes = box_elements(box) * element;
    if (bytes == 0 || find(gather, input, box)) return true;
    if (bytes > gather->room) return false;
    struct held *held = must_malloc(sizeof *held);
    *held = (struct held){.array = array_of(gather, input),
                          .operand = operand_of(gather, input),
                          .box = *box,
                          .element = element,
                          .bytes = bytes,
                          .missing = box_elements(box),
                          .next = gather->held};
    held->data = allocate(bytes);
    if (!held->data) return free(held), false;
    gather->held = held;
    gather->room -= bytes;
    return true;
}

bool gather_want_whole(struct gather *gather) {
    int inputs = gather->plan->tasks[gather->run->task].geometry.inputs;
    const struct held *before = gather->held;
    bool room = true;
    for (int i = 0; i < inputs && room; i++) {
        struct box whole = box_whole(&operand_of(gather, i)->shape);
        room = gather_want(gather, i, &whole);
    }
    while (!room && gather->held != before) drop(gather, &gather->held);
    return room;
}

void gather_forget_output(struct gather *gather) {
    for (struct held **link = &gather->held; *link;)
        if (is_of(gather, *link, GATHER_OUT))
            drop(gather, link);
        else
            link = &(*link)->next;
}

/* ---- from the pass ----------------------------------------------------------------------------------------------- */

/* Takes what a box that was read has of the wanted ones. */
static void take(struct gather *gather, int input, const struct box *box, const char *data) {
    struct box part;
    for (struct held *held = gather->held; held; held = held->next) {
        if (held->missing == 0 || !is_of(gather, held, input) || !shared(box, &held->box, &part)) continue;
        copy_part(&part, box, data, &held->box, held->data, held->element);
        held->missing -= box_elements(&part);
    }
}

static void begin(void *context) {
    struct gather *gather = context;
    for (struct held *held = gather->held; held; held = held->next)
        if (held->missing > 0) held->missing = box_elements(&held->box);
}

static void seen(void *context, int input, const struct box *box, const void *data) {
    struct gather *gather = context;
    if (is_first(gather, input)) take(gather, input, box, data);
}

struct watch gather_watch(struct gather *gather) {
    return (struct watch){begin, seen, gather};
}

/* ---- from files -------------------------------------------------------------------------------------------------- */

static struct grid grid_of(const struct gather *gather, int input) {
    const struct tiling *tiling = &gather->run->tiling;
    if (input < 0) return (struct grid){.grain = tiling->out_storage.chunk, .whole = true};
    struct grid grid = plan_grid(&gather->plan->arrays[array_of(gather, input)], operand_of(gather, input),
                                 &tiling->in_storage[input]);
    grid.whole = true;
    return grid;
}

/* The least part of a piece that has all of it that is missing; false: nothing is. */
static bool missing_of(const struct gather *gather, int input, const struct box *piece, struct box *wanted) {
    struct box part;
    bool any = false;
    for (const struct held *held = gather->held; held; held = held->next) {
        if (held->missing == 0 || !is_of(gather, held, input) || !shared(piece, &held->box, &part)) continue;
        if (any)
            widen(wanted, &part);
        else
            *wanted = part;
        any = true;
    }
    return any;
}

static enum status fill_input(struct gather *gather, int input, const struct host_reader *reader, struct error *error) {
    struct box whole = box_whole(&operand_of(gather, input)->shape), wanted = whole;
    if (!missing_of(gather, input, &whole, &wanted)) return STATUS_OK;
    begin(gather); /* a pass may have brought a part of a box */
    struct grid grid = grid_of(gather, input);
    struct cut cut = cut_box(&wanted, &grid, WALK);
    struct box first = cut_piece(&cut, 0); /* no other piece has more */
    for (int axis = 0; axis < first.rank; axis++) first.count[axis] = min_int64(cut.step[axis], wanted.count[axis]);
    char *data = malloc((size_t)(box_elements(&first) * element_of(gather, input)));
    if (!data)
        return fail(error, STATUS_RUN, "no host memory to verify %lld elements", (long long)box_elements(&first));
    enum status status = STATUS_OK;
    for (int64_t number = 0; number < cut.pieces && !status; number++) {
        struct box piece = cut_piece(&cut, number), part = piece;
        if (!missing_of(gather, input, &piece, &part)) continue;
        status = reader->read(reader->context, input, &part, data, error);
        if (!status) take(gather, input, &part, data);
    }
    free(data);
    return status;
}

enum status gather_fill(struct gather *gather, const struct host_reader *reader, struct error *error) {
    int inputs = gather->plan->tasks[gather->run->task].geometry.inputs;
    for (int i = GATHER_OUT; i < inputs; i++)
        if (is_first(gather, i)) TRY(fill_input(gather, i, reader, error));
    return STATUS_OK;
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* The whole chunks that a box touches. */
static struct box chunks_around(const struct gather *gather, int input, const struct box *box) {
    const struct shape *shape = &operand_of(gather, input)->shape;
    struct grid grid = grid_of(gather, input);
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

/* Moves the window to the chunks around a box. false: it is no use, or there is no memory for it. */
static bool move_window(struct gather *gather, int input, const struct box *box) {
    const struct tiling *tiling = &gather->run->tiling;
    const struct storage *storage = input < 0 ? &tiling->out_storage : &tiling->in_storage[input];
    if (!storage->filtered || storage->chunk.rank == 0 || box_elements(box) == 0) return false;
    struct held *window = &gather->window[1 + input];
    struct box around = chunks_around(gather, input, box);
    int64_t element = element_of(gather, input), bytes = box_elements(&around) * element;
    if (box_equal(&around, box) || bytes > min_int64(WINDOW_BYTES, gather->room + window->bytes)) return false;
    close_window(gather, input);
    *window = (struct held){.box = around, .element = element, .bytes = bytes, .data = allocate(bytes)};
    gather->room -= bytes;
    if (!window->data) close_window(gather, input);
    return window->data;
}

static enum status read_box(void *context, int input, const struct box *box, void *data, struct error *error) {
    struct gather *gather = context;
    const struct host_reader *reader = gather->reader;
    struct held *held = find(gather, input, box);
    if (held && held->missing > 0) held = NULL;
    if (!held && move_window(gather, input, box)) {
        held = &gather->window[1 + input];
        enum status status = reader->read(reader->context, input, &held->box, held->data, error);
        if (status) return close_window(gather, input), status;
    }
    if (!held) return reader->read(reader->context, input, box, data, error);
    copy_part(box, &held->box, held->data, box, data, held->element);
    return STATUS_OK;
}

static const void *lend_box(void *context, int input, const struct box *box) {
    struct gather *gather = context;
    const struct held *held = find(gather, input, box);
    if (!held || held->missing > 0) return NULL;
    struct walk walk = layout_between(box, &held->box, box);
    int64_t source, target;
    if (walk.rows != 1) return NULL;
    layout_row(&walk, 0, &source, &target);
    return held->data + source * held->element;
}

struct host_reader gather_reader(struct gather *gather, const struct host_reader *reader) {
    gather->reader = reader;
    return (struct host_reader){read_box, gather, lend_box};
}
