/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <assert.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>
#include <zlib.h>

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

/* Kinesis places records by MD5, which protects nothing: it may be one that FIPS 140 does not know. */
static const char MD5_PROPERTIES[] = "-fips";

static EVP_MD *find_hash(const char *name, const char *properties)
{
    EVP_MD *found = EVP_MD_fetch(NULL, name, properties);

    must(found != NULL);
    return found;
}

bool ks_digests_are_offered(void)
{
    EVP_MD *safe = EVP_MD_fetch(NULL, "SHA256", NULL);
    EVP_MD *placing = EVP_MD_fetch(NULL, "MD5", MD5_PROPERTIES);
    bool offered = safe != NULL && placing != NULL;

    EVP_MD_free(safe);
    EVP_MD_free(placing);
    return offered;
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
        sha256 = find_hash("SHA256", NULL);
    hash(sha256, message, ret_digest);
}

void ks_md5(ks_view message, uint8_t ret_digest[KS_MD5_SIZE])
{
    if (md5 == NULL)
        md5 = find_hash("MD5", MD5_PROPERTIES);
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

uint32_t ks_crc32(ks_view message)
{
    return (uint32_t)crc32_z(0, message.data, message.size);
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
