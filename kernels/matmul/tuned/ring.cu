/* ring.cu - stacks of float64 products of medium size, with tiles that fit them, on tensor cores.
 *
 *     tiles    | product 0, tile 0  | product 0, tile 1  | product 3, tile 0 ...     a block computes tile after tile,
 *     stages   | s0 | s1 | s2 | s0  | s1 | s2 | s0 | s1  | s2 | s0 ...               in stages of 128 bytes of k
 *                                ^ multiplied   ^ copies, two stages ahead
 *
 * A product of 88 x 88 x 88 is too large for stacks.cu, whose warps share no operands. It is too small for tiles of 64
 * or 128: they waste a third of the work or more, and k ends when the stages have just been filled. Here a warp
 * computes a small tile, such as 32 x 48, and a block is a grid of warps that suits the matrices. Blocks are
 * persistent: each takes tile after tile, and its ring of stages continues across tiles, so that the first k of the
 * next product is copied while the last k of this one is multiplied. Warps beyond the edge of C multiply nothing.
 *
 * Operands are copied without a change of layout, by 16 bytes at a time if this divides a row, else by 8. Threads read
 * single elements in either layout; padded pitches put them into different banks.
 *
 * Measured on an H200 with the best tile and warps, in microseconds: cuBLAS, the best of the other variants, ring.
 *
 *     1283 of 66^3   81.2  80.8  57.5        722 of 88^3   56.1  75.2  46.5        352 of 106^3   52.5  64.3  71.0
 *      831 of 82^3   66.6  83.1  62.5        606 of 96^3   51.3  71.6  47.5        352 of 126^3   50.2  63.6  67.5
 *
 * The limit: arithmetic, copies and stores hardly overlap. From matrices of about 110 on, dmma.cu is faster. */
#include "../../core/fragments.cuh"
#include "ring.cuh"
#include "ways.cuh"

/* ---- a warp ------------------------------------------------------------------------------------------------------ */

/* Bytes from one line to the next, and from one k to the next, in a stage. */
template <enum layout LAYOUT> __device__ inline unsigned ring_line(const ring_operand &o) {
    return LAYOUT == LINES ? RING_SIZE : RING_PITCH;
}
template <enum layout LAYOUT> __device__ inline unsigned ring_k(const ring_operand &o) {
    return LAYOUT == LINES ? unsigned(o.pitch) : RING_SIZE;
}

/* The WORKER of ring.cuh: a warp's ROWS x COLUMNS of 16 x 8 sums. */
template <int ROWS, int COLUMNS, enum layout A, enum layout B>
struct ring_doubles : fragment_sums<double, ROWS, COLUMNS> {
    static constexpr int WARP_M = ROWS * 16, WARP_N = COLUMNS * 8, REGISTERS = ROWS * COLUMNS > 8 ? 168 : 128;

    __device__ void multiply_add(const ring_work &work, const char *stage, int k) {
        const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
        const unsigned a_line = ring_line<A>(work.operand[0]), a_k = ring_k<A>(work.operand[0]);
        const unsigned b_line = ring_line<B>(work.operand[1]), b_k = ring_k<B>(work.operand[1]);
        const char *a = stage + t * a_k + (threadIdx.z * WARP_M + g) * a_line;
        const char *b = stage + work.b_at + t * b_k + (threadIdx.y * WARP_N + g) * b_line;
        double rows[2][ROWS][2], columns[2][COLUMNS]; /* of these 4 k and of the next */
        const auto load = [&](int which) {
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++)
                rows[which][i / 2][i % 2] = *reinterpret_cast<const double *>(a + i * 8 * a_line);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) columns[which][j] = *reinterpret_cast<const double *>(b + j * 8 * b_line);
            a += 4 * a_k, b += 4 * b_k;
        };
        const auto add = [&](int which) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    const int zigzag = i % 2 ? COLUMNS - 1 - j : j;
                    multiply(this->sums[i][zigzag], rows[which][i], columns[which][zigzag]);
                }
        };
        load(0);
#pragma unroll 1
        for (int l = 0; l < k; l += 8) {
            load(1);
            add(0);
            if (l + 4 >= k) break;
            if (l + 8 < k) load(0); /* not beyond the stage: copies write there */
            add(1);
        }
    }

    /* Stores the sums. This runs once per tile and spends most of its time on fetching instructions, so the frequent
     * cases have short code of their own. */
    __device__ void leave(const matmul_args &args, const ring_place &place) const {
        const int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4, n = int(args.n);
        const int64_t at = (int64_t(place.product) * args.m + place.row + g) * n + place.column + 2 * t;
        const int rows = place.rows - g, columns = place.columns - 2 * t;
        const double factor = args.alpha;
        double *const c = static_cast<double *>(args.c) + at;
        if (!args.first || !args.last)
            this->each([&](int i, int j, const double *two) {
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (i < rows && j + e < columns) matmul_store<double>(args, at + i * int64_t(n) + j + e, two[e]);
            });
        else if (n % 2 == 0)
            this->each([&](int i, int j, const double *two) {
                const feeder_piece<double, 2> both = {factor * two[0], factor * two[1]};
                if (i < rows && j < columns)
                    *reinterpret_cast<feeder_piece<double, 2> *>(c + i * int64_t(n) + j) = both;
            });
        else
            this->each([&](int i, int j, const double *two) {
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (i < rows && j + e < columns) c[i * int64_t(n) + j + e] = factor * two[e];
            });
    }
};

/* ---- the choice of a tile ---------------------------------------------------------------------------------------- */

#define SHAPES 3
template <typename WORKER> static constexpr ring_shape shape_of = {WORKER::WARP_M, WORKER::WARP_N, WORKER::REGISTERS};

static constexpr ring_shape shapes[SHAPES] = {shape_of<ring_doubles<2, 6, LINES, LINES>>,
                                              shape_of<ring_doubles<3, 4, LINES, LINES>>,
                                              shape_of<ring_doubles<2, 3, LINES, LINES>>};

/* Times on a multiprocessor, in microseconds. Fitted to all tiles and grids of warps for 20 stacks on an H200: the
 * standard deviation is 10 %, and the predicted best takes 1.03 times as long as the measured best. */
struct ring_costs {
    double multiply; /* 16 x 8 sums, for each k */
    double copy;     /* a warp's copy instruction */
    double store;    /* a warp's store instruction */
    double step;     /* overhead of a stage; the blocks of a multiprocessor share it */
    double tile;     /* overhead of a tile, likewise */
};
static constexpr ring_costs cost = {0.512e-3, 1.05e-3, 17.2e-3, 0.823, 0.257};
#define LAUNCH_SECONDS 2.5e-6
#define MEMORY         3.6e12 /* bytes per second of device memory, */
#define MEMORY_BY_8    2.2e12 /* with copies of 8 bytes: 1387 of 107 x 3 x 107 took 70 us, not the 47 of copies of 16 */
#define REGISTER_ROWS  (65536 / 32) /* of a multiprocessor: registers for each lane of a warp */

struct ring_choice {
    int shape;
    ring_plan plan;
    double seconds;
};

/* Predicts the time of a plan in seconds: the larger of a multiprocessor's work and the memory's. */
static double ring_seconds(const struct launch *launch, const ring_shape &shape, const ring_plan &plan) {
    const matmul_args &args = launch->args.matmul;
    const ring_work &work = plan.work;
    const int64_t warps = int64_t(work.across) * plan.down;
    const int64_t resident = std::min((max_shared_bytes() + SYSTEM_SHARED) / (plan.bytes + SYSTEM_SHARED),
                                      REGISTER_ROWS / shape.registers / warps); /* blocks on a multiprocessor */
    if (resident == 0) return INFINITY;
    const int64_t multiprocessors = std::max(1, launch->multiprocessors), round = 32 / RING_SIZE;
    const double k = double(args.k), padded_k = double(ceil_div(args.k, round) * round), items = double(work.items);
    const double items_each = double(ceil_div(work.items, multiprocessors));
    const double rounds = double(ceil_div(work.items, multiprocessors * resident));
    const double tiles = double(ceil_div(args.m, shape.m) * ceil_div(args.n, shape.n)) / double(work.tiles);
    const double warp = 32 * double(multiprocessors); /* copies of all multiprocessors' warps by one instruction */
    const double a_elements = double(args.m) * k * (args.a_batch_stride ? double(args.batch) : 1);
    const double b_elements = double(args.n) * k * (args.b_batch_stride ? double(args.batch) : 1);
    const double c_elements = double(args.batch) * double(args.m) * double(args.n);
    const double a_copies = double(args.batch * work.columns) * double(args.m) * k / work.operand[0].unit;
    const double b_copies = items / work.columns * double(args.n) * k / work.operand[1].unit;
    const double multiply = items_each * tiles * (shape.m / 16 * shape.n / 8) * padded_k;
    const double copies = (a_copies + b_copies) * RING_SIZE / warp;
    const double stores = c_elements / (args.n % 2 ? 1 : 2) / warp;
    const double busy = multiply * cost.multiply + copies * cost.copy + stores * cost.store +
                        rounds * (double(ceil_div(args.k * RING_SIZE, 128)) * cost.step + cost.tile);
    const auto seconds_of = [&](double elements, const ring_operand &o) {
        return elements * RING_SIZE / (o.unit == 16 ? MEMORY : MEMORY_BY_8);
    };
    const double moving = seconds_of(a_elements, work.operand[0]) + seconds_of(b_elements, work.operand[1]) +
                          c_elements * RING_SIZE / MEMORY;
    return LAUNCH_SECONDS + std::max(1e-6 * busy, moving);
}

/* The fastest grid of warps, of all shapes or of the one that the parameter `tile` names. */
static ring_choice ring_choose(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const int wanted = launch->choice[0];
    ring_choice best = {0, {}, INFINITY};
    for (int i = wanted ? wanted - 1 : 0; i < (wanted ? wanted : SHAPES); i++)
        for (int down = 1; down <= RING_WARPS; down++)
            for (int across = 1; across * down <= RING_WARPS; across++) {
                const ring_shape &shape = shapes[i];
                if ((down > 1 && (down - 1) * shape.m >= args.m) || (across > 1 && (across - 1) * shape.n >= args.n))
                    continue;
                const ring_plan plan = ring_plan_for(launch, shape, down, across);
                const double seconds = ring_seconds(launch, shape, plan);
                if (seconds < best.seconds) best = {i, plan, seconds};
            }
    return best;
}

static double matmul_ring_seconds(const struct launch *launch) {
    return ring_choose(launch).seconds;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static int matmul_ring_begin(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return 0;
    const ring_choice choice = ring_choose(launch);
    return with_layouts<K_KEPT>(args, [&](auto a, auto b) {
        constexpr enum layout A = a, B = b;
        switch (choice.shape) {
        case 0: return ring_start<ring_doubles<2, 6, A, B>>(launch, choice.plan);
        case 1: return ring_start<ring_doubles<3, 4, A, B>>(launch, choice.plan);
        default: return ring_start<ring_doubles<2, 3, A, B>>(launch, choice.plan);
        }
    });
}

/* The reason why the launch cannot run; NULL: it can. Tiles, lines and k are counted in 32 bits; the smallest tile is
 * larger than 16 x 24. */
static const char *matmul_ring_refuses(const struct launch *launch) {
    const matmul_args &args = launch->args.matmul;
    const double tiles = double(args.batch) * double(ceil_div(args.m, 16)) * double(ceil_div(args.n, 24));
    return tiles < 0x1p31 && std::max({args.m, args.n, args.k}) < RING_MAX ? nullptr : "the stack is too large";
}

DECLARE_KERNEL(matmul_ring);
static int matmul_ring_launch(const struct launch *launch) {
    return ways_launch(&matmul_ring, launch, matmul_ring_begin);
}

KERNEL(matmul_ring) = {
    .name = "ring",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "stacks of medium products: tiles that fit, copies that run on from product to product, tensor cores",
    .dtypes = DTYPE_BIT(FLOAT64),
    .edges = {{96, 64, 48, 32, 16, 8}, {96, 48, 32, 24, 8, 4}, {32, 16, 8, 4}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 80,
    .parameters = {{.name = "tile",
                    .values = {"auto", "largest", "second", "narrow"},
                    .help = "rows and columns of C per warp: 32x48, 48x32, 32x24; auto: as a model predicts"}},
    .refuses = matmul_ring_refuses,
    .seconds = matmul_ring_seconds,
    .launch = matmul_ring_launch,
};
