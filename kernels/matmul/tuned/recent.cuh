/* recent.cuh - caches what was found for the latest few products (a tile, an algorithm); its key is all that may decide
 * it. */
#ifndef KERNELS_MATMUL_RECENT_CUH
#define KERNELS_MATMUL_RECENT_CUH

#include "../../core/kernel.h"
#include <algorithm>
#include <array>

/* All that may decide how a product is done, except its operands' addresses; `of` distinguishes the caches' owners. */
using matmul_facts = std::array<int64_t, 15 + KERNEL_MAX_PARAMETERS>;

inline matmul_facts matmul_facts_of(const struct launch *launch, int device, const void *of = nullptr) {
    const struct matmul_args &args = launch->args.matmul;
    matmul_facts facts = {args.m,
                          args.n,
                          args.k,
                          args.batch,
                          args.a_batch_stride,
                          args.b_batch_stride,
                          args.transpose_a,
                          args.transpose_b,
                          args.first,
                          args.last,
                          launch->dtype,
                          launch->multiprocessors,
                          device,
                          int64_t(reinterpret_cast<intptr_t>(of)),
                          1}; /* an empty entry has 0 here */
    std::copy_n(launch->choice, KERNEL_MAX_PARAMETERS, facts.end() - KERNEL_MAX_PARAMETERS);
    return facts;
}

/* Values of the latest 64 problems; a new problem replaces the oldest. Not guarded: its owner has a mutex, or it is a
 * thread's own. */
template <typename VALUE> struct recent {
    static constexpr unsigned COUNT = 64;
    uint64_t hashes[COUNT];
    matmul_facts facts[COUNT];
    VALUE values[COUNT];
    unsigned next;

    static uint64_t hash_of(const matmul_facts &of) {
        uint64_t hash = 1;
        for (const int64_t fact : of) hash = (hash ^ uint64_t(fact)) * 0x9e3779b97f4a7c15;
        return hash;
    }

    /* NULL: not known. Valid until the next keep(). */
    const VALUE *find(const matmul_facts &of) const {
        const uint64_t hash = hash_of(of);
        for (unsigned i = 0; i < COUNT; i++)
            if (hashes[i] == hash && facts[i] == of) return &values[i];
        return nullptr;
    }

    const VALUE *keep(const matmul_facts &of, const VALUE &value) {
        const unsigned i = next++ % COUNT;
        hashes[i] = hash_of(of), facts[i] = of, values[i] = value;
        return &values[i];
    }
};

#endif
