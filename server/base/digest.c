/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <assert.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

/* Finding an algorithm and making a context cost more than hashing a short text, so each thread keeps its own. */
static _Thread_local EVP_MD *sha256;
static _Thread_local EVP_MD *md5;
static _Thread_local EVP_MD_CTX *hash_context;
static _Thread_local EVP_MAC_CTX *hmac_context;

/* A machine without SHA-256 or memory for a context can neither sign nor place a record: there is no way to go on. */
static void must(bool done)
{
    assert(done);
    (void)done;
}

static EVP_MD *find_hash(const char *name)
{
    EVP_MD *found = EVP_MD_fetch(NULL, name, NULL);

    must(found != NULL);
    return found;
}

static void hash(const EVP_MD *algorithm, ks_view message, uint8_t *ret_digest)
{
    if (hash_context == NULL)
        hash_context = EVP_MD_CTX_new();
    must(hash_context != NULL);
    must(EVP_DigestInit_ex2(hash_context, algorithm, NULL) == 1);
    must(EVP_DigestUpdate(hash_context, message.data, message.size) == 1);
    must(EVP_DigestFinal_ex(hash_context, ret_digest, NULL) == 1);
}

void ks_sha256(ks_view message, uint8_t ret_digest[KS_SHA256_SIZE])
{
    if (sha256 == NULL)
        sha256 = find_hash("SHA256");
    hash(sha256, message, ret_digest);
}

void ks_md5(ks_view message, uint8_t ret_digest[KS_MD5_SIZE])
{
    if (md5 == NULL)
        md5 = find_hash("MD5");
    hash(md5, message, ret_digest);
}

static EVP_MAC_CTX *new_hmac(void)
{
    char name[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context;

    must(mac != NULL);
    context = EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac); /* The context keeps it. */
    must(context != NULL);
    must(EVP_MAC_CTX_set_params(context, parameters) == 1);
    return context;
}

void ks_hmac_sha256(ks_view key, ks_view message, uint8_t ret_mac[KS_SHA256_SIZE])
{
    /* Without an address OpenSSL takes the key of the last call: an empty key needs one. */
    const uint8_t *key_data = key.size == 0 ? (const uint8_t *)"" : key.data;
    size_t size = 0;

    if (hmac_context == NULL)
        hmac_context = new_hmac();
    must(EVP_MAC_init(hmac_context, key_data, key.size, NULL) == 1);
    must(EVP_MAC_update(hmac_context, message.data, message.size) == 1);
    must(EVP_MAC_final(hmac_context, ret_mac, &size, KS_SHA256_SIZE) == 1);
    assert(size == KS_SHA256_SIZE);
}

void ks_digest_thread_end(void)
{
    EVP_MAC_CTX_free(hmac_context);
    EVP_MD_CTX_free(hash_context);
    EVP_MD_free(md5);
    EVP_MD_free(sha256);
    hmac_context = NULL;
    hash_context = NULL;
    md5 = NULL;
    sha256 = NULL;
}

/* CRC-32, eight bytes at a step: table k takes a byte that k more bytes follow (Intel, "slicing by 8", 2006). */
static uint32_t crc_tables[8][256];

__attribute__((constructor)) static void fill_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xEDB88320) : 0);
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_tables[table - 1][byte];
            crc_tables[table][byte] = crc >> 8 ^ crc_tables[0][crc & 0xFF];
        }
    }
}

/* Four bytes, the lowest first, on any machine. */
static uint32_t load_le32(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
           (uint32_t)data[3] << 24;
}

uint32_t ks_crc32(ks_view message)
{
    const uint8_t *data = message.data;
    size_t left = message.size;
    uint32_t crc = UINT32_MAX;

    for (; left >= 8; left -= 8, data += 8) {
        uint32_t low = crc ^ load_le32(data);
        uint32_t high = load_le32(data + 4);
        crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][low >> 8 & 0xFF] ^
              crc_tables[5][low >> 16 & 0xFF] ^ crc_tables[4][low >> 24] ^
              crc_tables[3][high & 0xFF] ^ crc_tables[2][high >> 8 & 0xFF] ^
              crc_tables[1][high >> 16 & 0xFF] ^ crc_tables[0][high >> 24];
    }
    for (; left > 0; left--, data++)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

void ks_random_bytes(void *buffer, size_t size)
{
    uint8_t *at = buffer;

    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        must(got > 0);
        at += got;
        size -= (size_t)got;
    }
}

uint64_t ks_random_u64(void)
{
    uint64_t value;

    ks_random_bytes(&value, sizeof(value));
    return value;
}

bool ks_equal_secret(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}
