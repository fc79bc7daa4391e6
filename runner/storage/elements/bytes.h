/* bytes.h - does what HDF5's filters shuffle and fletcher32 do to bytes, and swaps the byte order. */
#ifndef RUNNER_BYTES_H
#define RUNNER_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Moves byte b of element i (`size` bytes each) to b * elements + i, or back; bytes of an incomplete element stay at
 * the end. Both buffers are aligned for any element and do not overlap. */
void bytes_shuffle(const uint8_t *restrict from, uint8_t *restrict to, size_t bytes, size_t size);
void bytes_unshuffle(const uint8_t *restrict from, uint8_t *restrict to, size_t bytes, size_t size);

/* HDF5's checksum of a chunk. */
uint32_t bytes_fletcher32(const uint8_t *data, size_t bytes);

/* Reverses the bytes of each element. */
void swap_bytes(void *data, int64_t elements, size_t size);

#endif
