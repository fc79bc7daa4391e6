/* hash.c - computes SHA-256 with OpenSSL. */
#include "hash.h"

#include "fail.h"
#include <openssl/evp.h>
#include <stdio.h>

void sha256_hex(const void *data, size_t length, char hex[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    if (!EVP_Digest(data, length, digest, NULL, EVP_sha256(), NULL)) must_have(NULL);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
}
