/* residues_table.cuh - the moduli of residues.cu and the constants of the Chinese remainder theorem, computed by the
 * compiler.
 *
 * An integer x of at most half the product P of pairwise coprime moduli p is known by its residues: with Q = P / p and
 * V the inverse of Q modulo p,
 *
 *     x = sum of Q * (V x mod p)  -  a small multiple of P
 *
 * The residues of A are multiplied by V beforehand, so that the tensor cores compute V x mod p, the factor of Q. */
#ifndef KERNELS_RESIDUES_TABLE_CUH
#define KERNELS_RESIDUES_TABLE_CUH

#include <cstdint>

#define MODULI    15
#define PLANES    (MODULI + 1)        /* the last one bounds the sum of magnitudes */
#define BITS      58                  /* of a line's Euclidean norm when it is scaled: 2 * BITS + 1 bits fit below P */
#define MAX_K     65536               /* largest k: a sum of k products of int8 is at most 2^14 MAX_K = 2^30 */
#define OFFSET    (uint64_t(1) << 59) /* makes integers of BITS bits positive */
#define SUM_RANGE (uint32_t(1) << 30) /* largest magnitude of a sum of products */

/* The constants of one modulus. Members with [2] differ for A, which is multiplied by V, and for B. An operand's number
 * x becomes a residue between -p/2 and p/2: the dot product of the 8 bytes of x + OFFSET with `bytes`, plus `start`,
 * modulo p, minus p / 2. */
struct residues_modulus {
    uint32_t p;
    uint32_t quotient[4]; /* Q, its lowest 32 bits first */
    uint32_t bytes[2][2]; /* signed byte i of 8: 256^i modulo p, for A 256^i * V modulo p */
    uint32_t start[2];    /* p / 2 - OFFSET (for A: OFFSET * V), plus a multiple of p that keeps the sum positive */
    uint32_t reciprocal;  /* 2^32 / p, rounded up */
    uint32_t of_sum;      /* 2^39 / p, rounded up: divides sums from 0 to 2 SUM_RANGE exactly */
    uint32_t sum_start;   /* smallest multiple of p that is at least SUM_RANGE: makes sums positive */
};

struct residues_table {
    residues_modulus modulus[MODULI];
    uint32_t product[4]; /* P */
};

/* Computes the table. */
__host__ __device__ constexpr residues_table residues_make_table() {
    constexpr uint32_t p[MODULI] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197};
    residues_table table = {};
    unsigned __int128 product = 1;
    for (uint32_t each : p) product *= each;
    for (int w = 0; w < 4; w++) table.product[w] = uint32_t(product >> 32 * w);
    for (int i = 0; i < MODULI; i++) {
        residues_modulus &m = table.modulus[i];
        const unsigned __int128 quotient = product / p[i];
        uint32_t inverse = 1;
        while (uint32_t(quotient % p[i]) * inverse % p[i] != 1) inverse++;
        m.p = p[i];
        for (int w = 0; w < 4; w++) m.quotient[w] = uint32_t(quotient >> 32 * w);
        for (int operand = 0; operand < 2; operand++) {
            const uint32_t factor = operand == 0 ? inverse : 1;
            uint32_t power = factor;
            for (int b = 0; b < 8; b++) {
                const uint32_t low = power >= (p[i] + 1) / 2 ? power - p[i] : power; /* as a signed byte */
                m.bytes[operand][b / 4] |= (low & 255) << b % 4 * 8;
                power = power * 256 % p[i];
            }
            const uint32_t offset = uint32_t(OFFSET % p[i]) * factor % p[i];
            m.start[operand] = ((1 << 18) / p[i] + 2) * p[i] - offset + p[i] / 2;
        }
        m.reciprocal = uint32_t(((uint64_t(1) << 32) + p[i] - 1) / p[i]);
        m.of_sum = uint32_t(((uint64_t(1) << 39) + p[i] - 1) / p[i]);
        m.sum_start = (SUM_RANGE + p[i] - 1) / p[i] * p[i];
    }
    return table;
}

/* Do the constants have the properties that residues.cu relies on? */
constexpr bool residues_check_table() {
    constexpr residues_table table = residues_make_table();
    unsigned __int128 product = 0;
    for (int w = 3; w >= 0; w--) product = product << 32 | table.product[w];
    if (product >> (2 * BITS + 1) == 0) return false;
    for (int i = 0; i < MODULI; i++) {
        const residues_modulus &m = table.modulus[i];
        for (int j = 0; j < MODULI; j++) {
            uint32_t rest = 0;
            for (int w = 3; w >= 0; w--) rest = uint32_t((uint64_t(rest) << 32 | table.modulus[j].quotient[w]) % m.p);
            const uint32_t byte = m.bytes[0][0] & 255, inverse = byte < 128 ? byte : byte + m.p - 256;
            if (rest * inverse % m.p != (i == j)) return false;
        }
        /* Rounding the reciprocal must not change the quotient of any sum. */
        if ((uint64_t(m.of_sum) * m.p - (uint64_t(1) << 39)) * (2 * uint64_t(SUM_RANGE) + 256) >= uint64_t(1) << 39)
            return false;
        if (m.sum_start % m.p != 0 || m.sum_start < SUM_RANGE) return false;
    }
    return true;
}
static_assert(residues_check_table());

#endif
