/* wgmma.cu - multicast.cu's kernel with the few tiles that suit large products, so that a search has fewer to try.
 *
 *     a block computes 128 rows of 256, 192, 128 or 64 columns; k is split into 1, 2 or 4 pieces
 *
 * The parameter `tile` names the tile of two blocks, one below the other, which share their tile of B: 256x128 is 128
 * rows of 128 columns a block. `auto` lets multicast's model choose among all its tiles of 128 rows. Tiles wider than
 * 128 columns leave no registers to add the pieces' sums. */
#include "../../core/kernel.h"
#include <cstring>

DECLARE_KERNEL(matmul_multicast);

static const char *const tiles[] = {"auto", "256", "192", "128", "64"};
static const char *const pieces[] = {"auto", "1", "2", "4"};

/* The index of a value, which must exist, in the list of a parameter of multicast. */
static int index_of(int parameter, const char *word) {
    int index = 0;
    while (strcmp(matmul_multicast.parameters[parameter].values[index], word) != 0) index++;
    return index;
}

/* The same launch for multicast: with multicast's parameters rows, columns, pieces, turned. */
static struct launch as_multicast(const struct launch *launch) {
    struct launch other = *launch;
    other.choice[0] = index_of(0, "128");
    other.choice[1] = index_of(1, tiles[launch->choice[0]]);
    other.choice[2] = index_of(2, pieces[launch->choice[1]]);
    other.choice[3] = launch->choice[2];
    return other;
}

static uint64_t matmul_wgmma_way(const struct launch *launch) {
    const struct launch other = as_multicast(launch);
    return matmul_multicast.way(&other);
}

static size_t matmul_wgmma_workspace(const struct launch *launch) {
    return matmul_multicast.workspace(launch);
}

static const char *matmul_wgmma_refuses(const struct launch *launch) {
    const struct launch other = as_multicast(launch);
    return matmul_multicast.refuses(&other);
}

static int matmul_wgmma_launch(const struct launch *launch) {
    const struct launch other = as_multicast(launch);
    return matmul_multicast.launch(&other);
}

KERNEL(matmul_wgmma) = {
    .name = "wgmma",
    .op = OP_MATMUL,
    .device = DEVICE_CUDA,
    .summary = "Hopper's tensor cores, tiles of 128 rows per block: multicast's kernel with fewer to choose from",
    .dtypes = DTYPE_BIT(FLOAT16) | DTYPE_BIT(BFLOAT16),
    .edges = {{256, 128, 64, 8}, {256, 192, 128, 64, 8}, {64, 8, 256, 512}},
    .accuracy = ACCURACY_FULL,
    .divisible = true,
    .compute_capability = 90,
    .only_below = 100,
    .parameters = {{.name = "tile",
                    .values = {"auto", "256x256", "256x192", "256x128", "256x64"},
                    .help = "rows and columns of two blocks; auto: of those with 128 rows per block, by a model"},
                   {.name = "pieces",
                    .values = {"auto", "1", "2", "4"},
                    .help = "pieces of k, one per block; the blocks add their sums; 2 and 4: tiles up to 256x128"},
                   {.name = "turned", .values = {"auto", "no", "yes"}, .help = "the tile's 256 rows lie along n"}},
    .way = matmul_wgmma_way,
    .workspace = matmul_wgmma_workspace,
    .refuses = matmul_wgmma_refuses,
    .launch = matmul_wgmma_launch,
};
