/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "base/codec.h"
#include "base/prng.h"
#include "ks_test.h"

static void expect_hex(const uint8_t *digest, size_t size, const char *expected)
{
    char hex[2 * KS_SHA256_SIZE + 1] = "";

    ks_hex_encode(ks_view_of(digest, size), hex);
    EXPECT_STR(hex, expected);
}

/* FIPS 180-4, the examples that NIST publishes. */
TEST(sha256_of_known_messages)
{
    uint8_t digest[KS_SHA256_SIZE];

    ks_sha256(KS_VIEW("abc"), digest);
    expect_hex(digest, sizeof(digest),
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ks_sha256(KS_VIEW_NONE, digest);
    expect_hex(digest, sizeof(digest),
               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ks_sha256(KS_VIEW("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), digest);
    expect_hex(digest, sizeof(digest),
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* RFC 4231, test cases 1, 2 and 6. */
TEST(hmac_of_known_messages)
{
    uint8_t mac[KS_SHA256_SIZE];
    uint8_t key[131];

    memset(key, 0x0B, sizeof(key));
    ks_hmac_sha256(ks_view_of(key, 20), KS_VIEW("Hi There"), mac);
    expect_hex(mac, sizeof(mac),
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    ks_hmac_sha256(KS_VIEW("Jefe"), KS_VIEW("what do ya want for nothing?"), mac);
    expect_hex(mac, sizeof(mac),
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xAA, sizeof(key));
    ks_hmac_sha256(ks_view_of(key, sizeof(key)),
                   KS_VIEW("Test Using Larger Than Block-Size Key - Hash Key First"), mac);
    expect_hex(mac, sizeof(mac),
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(an_empty_key_is_not_the_last_key)
{
    uint8_t mac[KS_SHA256_SIZE];

    ks_hmac_sha256(KS_VIEW("some key"), KS_VIEW("x"), mac);
    ks_hmac_sha256(KS_VIEW_NONE, KS_VIEW_NONE, mac);
    expect_hex(mac, sizeof(mac),
               "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

/* RFC 1321, A.5. */
TEST(md5_of_known_messages)
{
    uint8_t digest[KS_MD5_SIZE];

    ks_md5(KS_VIEW("message digest"), digest);
    expect_hex(digest, sizeof(digest), "f96b697d7cb7938d525a2f31aaf161d0");
    ks_md5(KS_VIEW_NONE, digest);
    expect_hex(digest, sizeof(digest), "d41d8cd98f00b204e9800998ecf8427e");
}

TEST(contexts_are_made_again_after_the_end_of_a_thread)
{
    uint8_t digest[KS_SHA256_SIZE];

    ks_sha256(KS_VIEW("abc"), digest);
    ks_hmac_sha256(KS_VIEW("Jefe"), KS_VIEW("x"), digest);
    ks_digest_thread_end();
    ks_digest_thread_end();
    ks_sha256(KS_VIEW("abc"), digest);
    expect_hex(digest, sizeof(digest),
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ks_digest_thread_end();
}

/* The definition, one bit at a time. */
static uint32_t slow_crc32(ks_view message)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < message.size; i++) {
        crc ^= message.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

TEST(crc32_of_every_length_and_place)
{
    uint8_t bytes[300];
    struct ks_prng prng;

    ks_prng_init(&prng, 3);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)ks_prng_next(&prng);
    EXPECT_EQ_U64(ks_crc32(KS_VIEW("123456789")), UINT32_C(0xCBF43926));
    EXPECT_EQ_U64(ks_crc32(KS_VIEW_NONE), 0);
    for (size_t at = 0; at < 8; at++) {
        for (size_t size = 0; size < 280; size++) {
            ks_view view = ks_view_of(bytes + at, size);
            EXPECT_EQ_U64(ks_crc32(view), slow_crc32(view));
        }
    }
}

TEST(random_bytes_fill_all_of_the_buffer_and_differ)
{
    uint8_t a[1000] = {0}, b[1000] = {0};
    int zeros = 0;

    ks_random_bytes(a, sizeof(a));
    ks_random_bytes(b, sizeof(b));
    EXPECT(memcmp(a, b, sizeof(a)) != 0);
    for (size_t i = 0; i < sizeof(a); i++)
        zeros += a[i] == 0 && b[i] == 0;
    /* One in 65,536 each: five would be a broken generator. */
    EXPECT(zeros < 5);
    EXPECT(ks_random_u64() != ks_random_u64());
}

TEST(secrets_compare_by_content)
{
    EXPECT(ks_equal_secret("abcd", "abcd", 4));
    EXPECT(!ks_equal_secret("abcd", "abce", 4));
    EXPECT(!ks_equal_secret("abcd", "xbcd", 4));
    EXPECT(ks_equal_secret("a", "b", 0));
}
