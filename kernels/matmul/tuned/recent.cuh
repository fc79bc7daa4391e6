/* recent.cuh - a cache of the tile or algorithm that was chosen for each of the latest products. Its key holds
 * everything that the choice depends on. */
#ifndef KERNELS_MATMUL_RECENT_CUH
#define KERNELS_MATMUL_RECENT_CUH

#include "../../core/kernel.h"
#include <algorithm>
#include <array>

/* Everything that may decide how a product is computed, except its operands' addresses. */
using matmul_key = std::array<int64_t, 15 + KERNEL_MAX_PARAMETERS>;

/* The key of a launch in a cache. `kernel` distinguishes the entries of several kernels in one cache. */
inline matmul_key matmul_cache_key(const struct launch *launch, int device, const void *kernel = nullptr) {
    const struct matmul_args &args = launch->args.matmul;
    matmul_key key = {args.m,
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
                      int64_t(reinterpret_cast<intptr_t>(kernel)),
                      1}; /* an empty entry has 0 here */
    std::copy_n(launch->choice, KERNEL_MAX_PARAMETERS, key.end() - KERNEL_MAX_PARAMETERS);
    return key;
}

/* Values of the latest 64 keys; a new key replaces the oldest. Has no lock: the owner of a cache has a mutex, or the
 * cache is thread_local. */
template <typename VALUE> struct recent {
    static constexpr unsigned COUNT = 64;
    uint64_t hashes[COUNT];
    matmul_key keys[COUNT];
    VALUE values[COUNT];
    unsigned next;

    static uint64_t hash_of(const matmul_key &key) {
        uint64_t hash = 1;
        for (const int64_t word : key) hash = (hash ^ uint64_t(word)) * 0x9e3779b97f4a7c15;
        return hash;
    }

    /* NULL: the key is not known. The pointer is valid until the next keep(). */
    const VALUE *find(const matmul_key &key) const {
        const uint64_t hash = hash_of(key);
        for (unsigned i = 0; i < COUNT; i++)
            if (hashes[i] == hash && keys[i] == key) return &values[i];
        return nullptr;
    }

    /* Keeps a value, and returns its address in the cache. */
    const VALUE *keep(const matmul_key &key, const VALUE &value) {
        const unsigned i = next++ % COUNT;
        hashes[i] = hash_of(key), keys[i] = key, values[i] = value;
        return &values[i];
    }
};

#endif
