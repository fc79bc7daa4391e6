/* dmma_kernel.cuh - the tiles of dmma.cu and their launch. */
#ifndef KERNELS_MATMUL_DMMA_KERNEL_CUH
#define KERNELS_MATMUL_DMMA_KERNEL_CUH

#include "even.cuh"

/* Tiles: rows and columns of C per block, and per warp; warps that share k; BK, stages, blocks per multiprocessor. */
using dmma_shapes =
    std::tuple<share_shape<double, 128, 128, 64, 32, 1, 16, 4, 1>, share_shape<double, 128, 64, 64, 32, 1, 16, 3, 2>,
               share_shape<double, 64, 96, 32, 48, 2, 16, 5, 1>, share_shape<double, 64, 64, 32, 32, 1, 16, 4, 2>,
               share_shape<double, 64, 64, 32, 32, 2, 16, 5, 1>, share_shape<double, 32, 64, 32, 32, 2, 16, 5, 2>,
               share_shape<double, 32, 32, 32, 32, 4, 32, 4, 2>, share_shape<double, 16, 32, 16, 32, 4, 32, 5, 2>>;
template <int WHICH> using dmma_shape = std::tuple_element_t<WHICH, dmma_shapes>;

/* The model's numbers of each shape: flops, alone, start, even (struct matmul_cut). */
static constexpr matmul_cut all_cuts[] = {
    dmma_shape<0>::cut(5.1e+11, 1, 3.6e-6, 4.8e+11), dmma_shape<1>::cut(5e+11, 0.84, 5e-6, 4.76e+11),
    dmma_shape<2>::cut(4.9e+11, 1, 4.1e-6),          dmma_shape<3>::cut(5e+11, 0.83, 2.6e-6, 4.58e+11),
    dmma_shape<4>::cut(4.5e+11, 1, 2.55e-6),         dmma_shape<5>::cut(3.7e+11, 0.9, 1.4e-6),
    dmma_shape<6>::cut(2.6e+11, 0.88, 3e-7),         dmma_shape<7>::cut(2.2e+11, 0.73, 2e-7)};
static constexpr matmul_cuts cuts = {all_cuts, int(std::size(all_cuts))};

/* Chooses the tile and the cut of k. Operands with odd row lengths are copied element by element: 0.85 of the speed. */
inline matmul_choice matmul_dmma_choice(const struct launch *launch) {
    return matmul_choose(launch, cuts, launch->choice[0], matmul_in_groups(launch->args.matmul, 2) ? 1 : 0.85);
}

/* The workspace begins with the flags of even.cuh, which nothing else may write. */
static constexpr size_t FLAG_BYTES = MAX_EVEN_BLOCKS * sizeof(unsigned);

/* Starts the kernel of the chosen tile: even.cuh's if the blocks can share all tiles evenly, else shares.cuh's. */
template <enum layout A, int A_WIDTH, enum layout B, int B_WIDTH> int matmul_dmma_start(const struct launch *launch) {
    const matmul_choice choice = matmul_dmma_choice(launch);
    const matmul_cut &cut = cuts.cut[choice.cut];
    struct launch behind = *launch;
    behind.workspace = static_cast<char *>(launch->workspace) + FLAG_BYTES;
    return dispatch_tuple<dmma_shapes>(choice.cut, [&](auto shape) {
        using SHAPE = decltype(shape);
        if constexpr (SHAPE::WARPS_K == 1)
            if (choice.splits * choice.shares == 1 && matmul_even(launch, cut))
                return even_start<SHAPE, A, A_WIDTH, B, B_WIDTH>(
                    launch, cut, static_cast<unsigned *>(launch->workspace), static_cast<double *>(behind.workspace));
        return share_start<SHAPE, A, A_WIDTH, B, B_WIDTH>(&behind, cut, choice);
    });
}

/* Starts the kernel for operands of these layouts, which copies pairs of elements if all rows consist of pairs. */
template <enum layout A, enum layout B> int matmul_dmma_with(const struct launch *launch) {
    return matmul_in_groups(launch->args.matmul, 2) ? matmul_dmma_start<A, 2, B, 2>(launch)
                                                    : matmul_dmma_start<A, 1, B, 1>(launch);
}

/* Start the kernels for an A that is not transposed, and for one that is (dmma_a_plain.cu, dmma_a_transposed.cu). */
int matmul_dmma_a_plain(const struct launch *launch);
int matmul_dmma_a_transposed(const struct launch *launch);

#endif
