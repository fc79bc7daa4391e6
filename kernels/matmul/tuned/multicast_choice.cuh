/* multicast_choice.cuh - chooses the tile and the cluster for a product, by a model of multicast.cu's time.
 *
 * A configuration is a block's tile, whether the product is turned (C^T = B^T A^T), and how blocks form a cluster: they
 * lie below and beside each other and share operands, or they multiply pieces of k. A step is 64 of k of one tile. It
 * takes about the longest of
 *
 *     tensor core     4 instructions of each 64 rows, N / 2 cycles each, or what reading A from shared memory takes
 *     boxes           53 ns for each box of the operand that has more, however small: there is a thread for each
 *     L2              bytes that a block asks for; rows that begin within a line touch two lines, and more sectors
 *     arriving        bytes that come into a multiprocessor, whoever asked for them
 *     lines           a cycle for each line of 128 bytes
 *     few lines       that all blocks want at the same time: the parts of L2 that hold them serve one after the other
 *     the far half    if operands do not fit into L2 twice, their bytes cross the chip
 *     flight          0.75 us from a copy's start to its arrival, over the stages that are under way
 *
 * and a launch takes
 *
 *     launch + rounds * (steps * step + store)        or, if longer, bytes / rate of memory; and half of the other
 *
 * The constants were fitted to the times of 3900 configurations of 38 products on an H200. What is chosen is 3.1 %
 * slower than the best measured in the geometric mean. `tests/bench/choices.py` times all configurations. */
#ifndef KERNELS_MATMUL_MULTICAST_CHOICE_CUH
#define KERNELS_MATMUL_MULTICAST_CHOICE_CUH

#include "pack.cuh"
#include "wgmma.cuh"

#include <cmath>
#include <initializer_list>

#define TILE_K            64 /* of k in a stage: a slab's 128 bytes */
#define MULTICAST_CLUSTER 8  /* blocks, at most */
#define MULTICAST_STAGES  16
#define MULTICAST_SHARED  (227 * 1024) /* bytes of shared memory of a multiprocessor that one block may have */
#define MULTICAST_RING    1024         /* bytes before the stages: barriers */

struct multicast_tile_size {
    int rows, columns;
    int blocks; /* that share a multiprocessor if there are enough */

    bool operator==(const multicast_tile_size &) const = default;
    /* The largest number of pieces of k: wider tiles have no registers to add them up. */
    constexpr int max_pieces() const { return columns <= 128 ? MULTICAST_CLUSTER : 1; }
};
static constexpr multicast_tile_size multicast_tiles[] = {
    {128, 256, 1}, {128, 240, 1}, {128, 224, 1}, {128, 208, 1}, {128, 192, 1}, {128, 176, 1}, {128, 160, 1},
    {128, 144, 1}, {128, 128, 1}, {128, 112, 1}, {128, 96, 1},  {128, 80, 1},  {128, 64, 1},  {128, 48, 2},
    {64, 192, 1},  {64, 160, 1},  {64, 144, 1},  {64, 128, 1},  {64, 112, 1},  {64, 96, 2},   {64, 80, 2},
    {64, 64, 2},   {64, 48, 2},   {64, 32, 2},   {64, 16, 2}};

/* The tiles at which groups begin, and the end: a file compiles a group for one type
 * (multicast_bfloat16_128x256.cu). */
static constexpr size_t multicast_groups[] = {0, 2, 5, 9, 14, 19, 25};

/* Blocks of a cluster that share operands: down * across. */
struct multicast_share {
    int down, across;
};
static const multicast_share multicast_shares[] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2},
                                                   {1, 4}, {8, 1}, {4, 2}, {2, 4}, {1, 8}};

struct multicast_config {
    multicast_tile_size tile;
    multicast_share share;
    int pieces;
    bool turned;
    bool leaves; /* half of a multiprocessor's shared memory stays free, so that the next launch's blocks can begin */
    int stages;
    bool once; /* a block does one tile */
    double seconds;
};

/* The share of all multiprocessors that clusters of 1 to 8 blocks can take. A cluster lies within one part of the
 * chip. */
static const double multicast_cluster_share[] = {1, 1, 0.886, 0.909, 0.833, 0.773, 0.795, 0.909};

/* The columns of a box in which C is stored, unless k is cut (then 16). */
template <int COLUMNS> constexpr int multicast_box = COLUMNS % 64 == 0 ? 64 : COLUMNS % 32 == 0 ? 32 : 16;
/* The number of slabs of 64 columns in which a consumer stores its sums, unless its block has only one tile. */
template <int COLUMNS> constexpr int multicast_slabs = COLUMNS > 64 ? 2 : 1;

/* Must the operand be packed, because TMA cannot read it (pack.cuh)? */
inline bool multicast_packs(const tma_stack &stack) {
    return pack_needed(stack, 2, false);
}

/* The bytes of an operand. */
inline double multicast_bytes(const tma_stack &stack) {
    return 2.0 * double(stack.count) * double(stack.rows) * double(stack.columns);
}

/* The bytes of the slabs of all consumers (multicast_slabs). */
inline int multicast_slab_bytes(const multicast_tile_size &tile) {
    return tile.rows / 64 * (tile.columns > 64 ? 2 : 1) * SLAB_BYTES;
}

/* The number of slabs that hold a consumer's sums for other pieces until they are copied. */
__host__ __device__ constexpr int multicast_left(int columns) {
    return (columns / 16 + 1) / 2;
}

/* The bytes of shared memory that receive the sums of other blocks for this block's columns. */
inline int multicast_landing_bytes(const multicast_tile_size &tile, int pieces) {
    return int(ceil_div(tile.columns / 16, pieces)) * (pieces - 1) * 16 * tile.rows * int(sizeof(float));
}

/* The bytes of a stage; b_along_n: B is MN-major, so that its tile takes whole slabs. */
inline int multicast_stage_bytes(const multicast_tile_size &tile, bool b_along_n) {
    return tile.rows * 128 + (b_along_n ? int(ceil_div(tile.columns, 64)) * SLAB_BYTES : tile.columns * 128);
}

/* The number of tiles of clusters. */
inline int64_t multicast_clusters(const matmul_args &args, const multicast_tile_size &tile,
                                  const multicast_share &share) {
    return args.batch * ceil_div(args.m, tile.rows * share.down) * ceil_div(args.n, tile.columns * share.across);
}

/* The lines of 128 bytes of an operand's tile that each of `blocks` copies. They are lines of k if the operand lies
 * along m or n (`tile` 0), else lines of m or n, of which `extent` exist. Blocks share groups of 8 of them
 * (tma.cuh). */
inline int multicast_lines(int64_t extent, int tile, int blocks) {
    if (tile == 0) return TILE_K / blocks;
    const int lines = int(std::min<int64_t>(tile, extent));
    return blocks == 1 ? lines : int(ceil_div(lines, blocks * 8)) * 8;
}

/* The smallest number of stages: a tile may be stored through them. */
inline int multicast_stages(const multicast_tile_size &tile, int pieces) {
    return std::max(2, pieces > 1 ? multicast_left(tile.columns) + 1 : int(ceil_div(tile.columns, 64)));
}

/* What a block copies of one operand in a step. Lines are of 128 bytes. */
struct multicast_copies {
    double lines;    /* lines that the block asks for itself */
    double arriving; /* lines that arrive in the block, those included that others of its cluster ask for */
    double boxes;    /* boxes that the block copies */
    double distinct; /* lines that all blocks want together */
    double cost;     /* of asking for a line, relative to one that begins on 128 bytes */
    double apart;    /* like `cost`, if many blocks ask for the same line */
    double bytes;    /* of the operand */

    multicast_copies(const tma_stack &stack, int64_t batch, int64_t extent, int tile, int blocks, bool along)
        : bytes(multicast_bytes(stack)) {
        boxes = along ? double(ceil_div(std::min<int64_t>(tile, extent), 64)) : 1;
        lines = along ? boxes * multicast_lines(extent, 0, blocks) : multicast_lines(extent, tile, blocks);
        arriving = lines * blocks;
        distinct = double(batch * ceil_div(extent, tile)) * arriving;
        const int64_t pitch = ceil_div(stack.columns, 8),
                      alignment = pitch & -pitch; /* 16 bytes; its largest power of 2 */
        cost = 1 + 0.6244 * (1 - double(std::min<int64_t>(alignment, 8)) / 8);
        apart = 1 + 1.046 * (1 - double(std::min<int64_t>(alignment, 8)) / 8);
    }
};

/* The longest of `times`, and a little more for other long ones, as nothing overlaps perfectly: their 8-norm. */
inline double multicast_longest(std::initializer_list<double> times) {
    const double longest = std::max(times);
    double sum = 0;
    for (const double time : times) {
        const double square = time / longest * (time / longest), fourth = square * square;
        sum += fourth * fourth;
    }
    return longest * std::sqrt(std::sqrt(std::sqrt(sum)));
}

#define MULTICAST_CLOCK        1.715e9   /* cycles per second */
#define MULTICAST_BOX          52.56e-9  /* seconds of one copy */
#define MULTICAST_BEGIN        0.925e-6  /* seconds of a launch, unless half of the memory is left to the next: */
#define MULTICAST_LEFT         0.6765e-6 /* seconds that this saves */
#define MULTICAST_OF_CLUSTERS  0.8098e-6 /* seconds that a launch of clusters takes in addition */
#define MULTICAST_RAGGED       0.6e12    /* bytes of C per second, stored by elements; */
#define MULTICAST_RAGGED_PAIRS 2e12      /* stored by pairs */

/* The tensor core's time for a step: 4 instructions of each 64 rows. */
inline double multicast_multiply(const multicast_tile_size &tile) {
    return tile.rows / 64 * 4 * std::max(tile.columns / 2.0, 31.61 + tile.columns / 8.0) / MULTICAST_CLOCK;
}

/* How the blocks of a launch load the chip. */
struct multicast_load {
    int cluster;    /* blocks of a cluster */
    double blocks;  /* of the launch */
    double at_once; /* blocks that run at once, if each has a multiprocessor of its own */
    double busy;    /* blocks that run at once */
    double beside;  /* blocks on a multiprocessor */
    double rounds;  /* tiles that a block does one after the other */
    double steps;   /* of a tile */

    multicast_load(const matmul_args &args, const multicast_config &config, int multiprocessors) {
        cluster = config.share.down * config.share.across * config.pieces;
        blocks = double(multicast_clusters(args, config.tile, config.share)) * cluster;
        at_once = multiprocessors * multicast_cluster_share[cluster - 1];
        busy = std::min(blocks, at_once * config.tile.blocks);
        beside = std::ceil(std::max(1.0, busy / at_once));
        rounds = std::ceil(blocks / (at_once * config.tile.blocks));
        steps = double(ceil_div(ceil_div(args.k, TILE_K), config.pieces));
    }
};

/* Sets config.once and config.stages: as many as fit into shared memory, but no more than there are steps, except that
 * a block which does one tile has enough to store the tile through them. */
inline void multicast_set_stages(const matmul_args &args, multicast_config &config, const multicast_load &load) {
    const multicast_tile_size &tile = config.tile;
    config.once = config.pieces > 1 || load.blocks <= load.at_once;
    const int besides_stages = config.once ? multicast_landing_bytes(tile, config.pieces) : multicast_slab_bytes(tile);
    const int room_for_stages =
        MULTICAST_SHARED / (config.leaves ? 2 : int(load.beside)) - MULTICAST_RING - SYSTEM_SHARED - besides_stages;
    const int fitting = std::min(MULTICAST_STAGES, room_for_stages / multicast_stage_bytes(tile, !args.transpose_b));
    const double useful = std::max(multicast_stages(tile, config.pieces) + 1.0, load.steps * load.rounds);
    config.stages = int(std::min(double(fitting), useful));
}

/* Predicts the seconds of a step: the longest of the times that the head of this file lists. Rates are bytes per second
 * of one multiprocessor, but `far`, which is the whole chip's. */
inline double multicast_step_seconds(const matmul_args &args, const multicast_config &config,
                                     const multicast_load &load, const multicast_copies &a, const multicast_copies &b) {
    const double l2 = 94.2e9, port = 790e9, far = 10000e9;
    const double half_l2 = 25e6;                         /* bytes */
    const double parts = 221, part_seconds = 0.296e-9;   /* parts of L2 that serve lines; what one takes for a line */
    const double step_seconds = 39.05e-9, crowd = 1.744; /* beside the boxes; by a further block on a multiprocessor */
    const double flight_seconds = 0.753e-6;              /* from a copy's start to its arrival */
    double asked = 0, arriving = 0, lines = 0, crosses = 0, few = 0;
    for (const multicast_copies &operand : {a, b}) {
        asked += operand.lines * 128 * operand.cost / l2;
        arriving += operand.arriving * 128 / port;
        lines += operand.lines;
        few = std::max(few, load.busy * operand.lines * operand.apart /
                                std::min(load.busy / load.blocks * operand.distinct * config.pieces, parts) *
                                part_seconds);
        if (a.bytes + b.bytes > half_l2 && operand.bytes > half_l2 / 3)
            crosses += operand.lines * 128 * load.busy / far;
    }
    const double multiply = multicast_multiply(config.tile) * load.beside;
    const double boxes = (step_seconds + MULTICAST_BOX * std::max(a.boxes, b.boxes)) * (1 + crowd * (load.beside - 1));
    const double flight = flight_seconds / (config.stages - 0.5);
    return multicast_longest({multiply, asked * load.beside, arriving * load.beside,
                              lines * load.beside / MULTICAST_CLOCK, boxes, crosses, few, flight});
}

/* Predicts the seconds in which a block stores a tile. If rows of C do not all begin on 16 bytes, threads store words,
 * not the copy engine boxes. */
inline double multicast_store_seconds(const matmul_args &args, const multicast_config &config) {
    if ((config.turned ? args.m : args.n) % 8 == 0)
        return 0.6609e-6 + 2.306e-6 * config.tile.rows * config.tile.columns / 32768.0;
    const double wide = config.tile.columns / 256.0;
    return config.turned ? 0.123e-6 + 4.491e-6 * wide : 0.632e-6 + 8.793e-6 * wide;
}

/* Predicts the seconds in which the chip stores rows of C that do not all begin on 16 bytes, else returns 0. They show
 * if k is short. */
inline double multicast_ragged_seconds(const matmul_args &args, bool turned) {
    const int64_t row = turned ? args.m : args.n;
    const double bytes = 2 * double(args.batch) * double(args.m) * double(args.n);
    return row % 8 == 0 ? 0 : bytes / (row % 2 ? MULTICAST_RAGGED : MULTICAST_RAGGED_PAIRS);
}

/* Predicts the seconds of one launch, without the copies that TMA may need (pack.cuh). `args` are turned already if
 * config.turned. Sets config.stages and config.once. The constants are fitted, as the head of this file says. */
inline double multicast_seconds_of(const matmul_args &args, multicast_config &config, int multiprocessors) {
    const multicast_tile_size &tile = config.tile;
    const multicast_load load(args, config, multiprocessors);
    multicast_set_stages(args, config, load);
    const multicast_copies a(wgmma_stack_a(args), args.batch, args.m, tile.rows, config.share.across, args.transpose_a),
        b(wgmma_stack_b(args), args.batch, args.n, tile.columns, config.share.down, !args.transpose_b);
    double compute = load.rounds * load.steps * multicast_step_seconds(args, config, load, a, b);
    compute *= 1 + 0.3065 * compute / (compute + 500e-6);                                          /* the clock falls */
    const double bytes = a.bytes + b.bytes, memory = bytes / (bytes > 40e6 ? 7.136e12 : 25.01e12); /* else from L2 */
    const double begin =
        (MULTICAST_BEGIN - (config.leaves ? MULTICAST_LEFT : 0)) + (load.cluster > 1 ? MULTICAST_OF_CLUSTERS : 0);
    const double longest = std::max({compute, memory, multicast_ragged_seconds(args, config.turned)});
    const double total =
        begin + longest + 0.5107 * std::min(compute, memory) + load.rounds * multicast_store_seconds(args, config);
    if (config.pieces == 1) return total;
    /* The blocks of a tile's pieces begin and end together, and each receives sums. */
    return 1.071 * total + 0.3142e-6 + 1.267e-6 * multicast_landing_bytes(tile, config.pieces) / 65536.0;
}

/* Can this tile have clusters of this form? Blocks beyond the edge of C would only keep others waiting. */
inline bool multicast_forms(const matmul_args &args, const multicast_tile_size &tile, const multicast_share &share) {
    return (share.down == 1 || args.m > tile.rows * (share.down / 2)) &&
           (share.across == 1 || args.n > tile.columns * (share.across / 2)) && tile.columns % (8 * share.down) == 0;
}

/* Replaces `best` by `config` with one of both values of `leaves`, if that is faster. `many`: blocks per
 * multiprocessor. */
inline void multicast_try(multicast_config &best, multicast_config config, const matmul_args &args, double many,
                          int multiprocessors) {
    for (const bool leaves : {false, true}) {
        if (leaves && (config.tile.blocks == 1 || many > 1)) continue;
        config.leaves = leaves;
        config.seconds = multicast_seconds_of(args, config, multiprocessors);
        if (config.stages < multicast_stages(config.tile, config.pieces)) continue;
        if (best.pieces == 0 || config.seconds < best.seconds) best = config;
        if (config.seconds - 1.1 * MULTICAST_LEFT > best.seconds) break;
    }
}

/* Returns the seconds for packing the operands that TMA cannot read. */
inline double multicast_pack_seconds(const matmul_args &args) {
    int64_t packed = 0;
    for (const tma_stack &stack : {wgmma_stack_a(args), wgmma_stack_b(args)})
        if (multicast_packs(stack)) packed += int64_t(multicast_bytes(stack));
    return packed > 0 ? 2e-6 + 2 * double(packed) / 3.52e12 : 0;
}

/* Returns the configuration with the shortest predicted time. `rows`, `columns` and `pieces` above 0, and `turned` (1:
 * no, 2: yes), admit only this value. config.pieces is 0 if there is none. */
inline multicast_config multicast_choose(const struct launch *launch, int rows, int columns, int pieces, int turned) {
    const matmul_args &args = launch->args.matmul, other = matmul_turn(args);
    const int multiprocessors = std::max(1, launch->multiprocessors);
    const int64_t steps = ceil_div(args.k, TILE_K);
    multicast_config best = {};
    for (const multicast_tile_size &tile : multicast_tiles) {
        if ((rows && rows != tile.rows) || (columns && columns != tile.columns)) continue;
        for (int side = 0; side < 2; side++) {
            const matmul_args &operands = side ? other : args;
            if (turned && turned != side + 1) continue;
            for (const multicast_share &share : multicast_shares) {
                if (!multicast_forms(operands, tile, share)) continue;
                const int64_t blocks = multicast_clusters(operands, tile, share) * share.down * share.across;
                const int max_cut = std::min(MULTICAST_CLUSTER / (share.down * share.across), tile.max_pieces());
                for (int cut = 1; cut <= max_cut; cut++) {
                    if (pieces && pieces != cut) continue;
                    if (!pieces && cut > 1 && (args.k < 2 * TILE_K * cut || blocks * cut > multiprocessors)) break;
                    /* No step is shorter than its copies or its multiplications: this bound alone excludes most
                     * configurations. */
                    const double many = double(blocks * cut) / multiprocessors;
                    const double lower_bound =
                        double(ceil_div(steps, cut)) * std::max(MULTICAST_BOX, many * multicast_multiply(tile));
                    if (best.pieces && lower_bound + MULTICAST_BEGIN - MULTICAST_LEFT > best.seconds) continue;
                    multicast_try(best, {tile, share, cut, side == 1, false, 0, false, 0}, operands, many,
                                  multiprocessors);
                }
            }
        }
    }
    best.seconds += multicast_pack_seconds(args);
    return best;
}

#endif
