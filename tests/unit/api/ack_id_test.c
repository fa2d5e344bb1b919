/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ack_id.h"
#include "base/prng.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct ks_ack_key key = {{1, 2}, 0xABCD1234, 0};

static ks_view view(const char *text)
{
    return ks_view_text(text);
}

static void write_one(char text[KS_ACK_ID_SIZE + 1])
{
    struct ks_ack_stamp stamp;

    ks_ack_stamp_init(&stamp, &key, 7, 3, &(struct ks_ack_run){70000, 12, 0, 1, 77});
    ks_ack_id_write(&stamp, 123456789012, text);
    text[KS_ACK_ID_SIZE] = '\0';
}

/* Appendix A of the paper, and the first of the published vectors: key 00 01 .. 0f, message 00 01 .. */
TEST(siphash_gives_the_published_values)
{
    uint64_t paper_key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t message[15];

    for (uint8_t i = 0; i < sizeof(message); i++)
        message[i] = i;
    EXPECT_EQ_U64(ks_siphash(paper_key, ks_view_of(message, 15)), UINT64_C(0xa129ca6149be45e5));
    EXPECT_EQ_U64(ks_siphash(paper_key, ks_view_of(message, 0)), UINT64_C(0x726fdb47dd0e0e31));
}

TEST(an_ack_id_comes_back_as_it_was_written)
{
    char text[KS_ACK_ID_SIZE + 1];
    struct ks_ack ack;

    write_one(text);
    EXPECT_EQ_U64(strlen(text), KS_ACK_ID_SIZE);
    EXPECT_EQ_U64(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                  KS_ACK_ID_SIZE);
    EXPECT_EQ_I64(ks_ack_id_read(&key, view(text), &ack), KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.session, 7);
    EXPECT_EQ_U64(ack.session_epoch, 3);
    EXPECT_EQ_U64(ack.run_count, 1);
    EXPECT_EQ_U64(ack.runs[0].shard, 70000);
    EXPECT_EQ_U64(ack.runs[0].epoch, 12);
    EXPECT_EQ_U64(ack.runs[0].first, 123456789012);
    EXPECT_EQ_U64(ack.runs[0].count, 1);
    EXPECT_EQ_U64(ack.runs[0].assignment, 77);
}

TEST(a_batch_id_holds_as_many_runs_as_a_batch_may_have)
{
    struct ks_ack ack = {.session = 1, .session_epoch = 2, .run_count = KS_BATCH_RUNS_MAX};
    struct ks_ack read;
    char text[KS_BATCH_ID_MAX + 1];
    size_t size;

    for (uint32_t i = 0; i < KS_BATCH_RUNS_MAX; i++)
        ack.runs[i] =
            (struct ks_ack_run){i, 100 + i, 1000 + i, 10000 + i, (UINT64_C(1) << 48) - 16 + i};
    size = ks_batch_id_write(&key, &ack, text);
    EXPECT_EQ_U64(size, KS_BATCH_ID_MAX);
    EXPECT_EQ_U64(strlen(text), size);
    EXPECT_EQ_I64(ks_batch_id_read(&key, view(text), &read), KS_ACK_ID_OK);
    EXPECT_EQ_U64(read.run_count, KS_BATCH_RUNS_MAX);
    EXPECT_EQ_U64(read.runs[15].shard, 15);
    EXPECT_EQ_U64(read.runs[15].epoch, 115);
    EXPECT_EQ_U64(read.runs[15].first, 1015);
    EXPECT_EQ_U64(read.runs[15].count, 10015);
    EXPECT_EQ_U64(read.runs[14].assignment, (UINT64_C(1) << 48) - 2);
    EXPECT_EQ_U64(read.runs[15].assignment, (UINT64_C(1) << 48) - 1);
}

TEST(every_changed_character_is_found)
{
    char text[KS_ACK_ID_SIZE + 1];
    struct ks_ack ack;

    write_one(text);
    for (size_t i = 0; i < KS_ACK_ID_SIZE; i++) {
        char kept = text[i];
        text[i] = kept == 'A' ? 'B' : 'A';
        EXPECT(ks_ack_id_read(&key, view(text), &ack) != KS_ACK_ID_OK);
        text[i] = kept;
    }
    EXPECT_EQ_I64(ks_ack_id_read(&key, view(text), &ack), KS_ACK_ID_OK);
}

TEST(an_id_of_another_boot_is_unknown_and_a_forged_one_malformed)
{
    struct ks_ack_key other_boot = key;
    struct ks_ack_key other_secret = key;
    char text[KS_ACK_ID_SIZE + 1];
    struct ks_ack ack;

    other_boot.boot++;
    other_secret.key[0]++;
    write_one(text);
    EXPECT_EQ_I64(ks_ack_id_read(&other_boot, view(text), &ack), KS_ACK_ID_UNKNOWN);
    EXPECT_EQ_I64(ks_ack_id_read(&other_secret, view(text), &ack), KS_ACK_ID_MALFORMED);
    EXPECT_EQ_I64(ks_batch_id_read(&key, view(text), &ack), KS_ACK_ID_MALFORMED);
    EXPECT_EQ_I64(ks_ack_id_read(&key, view(""), &ack), KS_ACK_ID_MALFORMED);
    EXPECT_EQ_I64(ks_ack_id_read(&key, view("not an id"), &ack), KS_ACK_ID_MALFORMED);
}

/* Signed, as if another version had our key: a run of 24 bytes, where it has 25. */
TEST(a_batch_id_of_another_shape_is_malformed)
{
    static const struct ks_ack_key known = {{1, 2}, 0x64656164, 0};
    struct ks_ack ack;

    EXPECT_EQ_I64(
        ks_batch_id_read(&known,
                         view("AmRlYWQAAAcAAAADAAERcAAAAAAMAAAAAABNABy-mRoUAQIDSBBfaejGHXI"), &ack),
        KS_ACK_ID_MALFORMED);
}

/* The forger knows a true id and everything in it but the key: he guesses the number and the MAC (its last 19 of 55
 * characters). By chance one of 2^64 would pass. */
TEST(of_ten_million_forged_ids_none_is_accepted)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    enum { FORGED = 10000000, KEPT = 36 };
    char text[KS_ACK_ID_SIZE + 1];
    struct ks_prng prng;
    struct ks_ack ack;
    uint32_t refused = 0;

    ks_prng_init(&prng, 10);
    write_one(text);
    for (uint32_t turn = 0; turn < FORGED; turn++) {
        for (size_t at = KEPT; at < KS_ACK_ID_SIZE;) {
            uint64_t bits = ks_prng_next(&prng);
            for (int part = 0; part < 10 && at < KS_ACK_ID_SIZE; part++, bits >>= 6)
                text[at++] = alphabet[bits % 64];
        }
        refused += ks_ack_id_read(&key, view(text), &ack) == KS_ACK_ID_MALFORMED;
    }
    EXPECT_EQ_U64(refused, FORGED);
}

TEST(an_id_of_another_subscription_says_whose_it_is)
{
    struct ks_ack_key other = key;
    char text[KS_ACK_ID_SIZE + 1];
    struct ks_ack ack;

    other.subscription = 9;
    write_one(text);
    EXPECT_EQ_I64(ks_ack_id_read(&other, view(text), &ack), KS_ACK_ID_ELSEWHERE);
    EXPECT_EQ_U64(ack.subscription, 0);
}

TEST(two_keys_differ)
{
    struct ks_ack_key a;
    struct ks_ack_key b;

    ks_ack_key_init(&a, 5, 0);
    ks_ack_key_init(&b, 5, 0);
    EXPECT(memcmp(a.key, b.key, sizeof(a.key)) != 0);
    EXPECT_EQ_U64(a.boot, 5);
}
