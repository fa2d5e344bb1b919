/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - hashes, MACs and random bytes: OpenSSL's home for hashes, zlib's for its CRC.
 *
 * SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104), MD5 (RFC 1321: Kinesis places records by it; not for safety).
 */
#ifndef KS_BASE_DIGEST_H
#define KS_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { KS_SHA256_SIZE = 32, KS_MD5_SIZE = 16 };

/* False: the configuration of OpenSSL on this machine withholds one of them; the next two functions abort then. */
bool ks_digests_are_offered(void);

void ks_sha256(ks_view message, uint8_t ret_digest[KS_SHA256_SIZE]);
void ks_hmac_sha256(ks_view key, ks_view message, uint8_t ret_mac[KS_SHA256_SIZE]);
void ks_md5(ks_view message, uint8_t ret_digest[KS_MD5_SIZE]);
/* CRC-32 of zlib (polynomial 0xEDB88320), as x-amz-crc32 uses it. */
uint32_t ks_crc32(ks_view message);

/* Frees what this thread keeps between calls (contexts that are made at its first call). A thread of jobs calls it
 * before it ends. All functions here may be called on any thread. */
void ks_digest_thread_end(void);

/* From the system's generator; aborts if it has none. */
void ks_random_bytes(void *buffer, size_t size);
uint64_t ks_random_u64(void);

/* In a time that does not depend on the content. */
bool ks_equal_secret(const void *a, const void *b, size_t size);

#endif
