/* hash.h - the SHA-256 of bytes, as text. */
#ifndef RUNNER_HASH_H
#define RUNNER_HASH_H

#include <stddef.h>

/* Writes the SHA-256 of bytes as 64 hex digits and a NUL. */
void sha256_hex(const void *data, size_t length, char hex[65]);

#endif
