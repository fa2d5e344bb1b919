/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/native_words.h"

#include "ks_test.h"

#include <string.h>

static ks_view text(const char *string)
{
    return ks_view_text(string);
}

/* What was appended, as a string that lives until the next call. */
static const char *written(struct ks_bytes *bytes)
{
    static char copy[512];

    EXPECT_OK(ks_view_copy_text(ks_bytes_view(bytes), copy, sizeof(copy)));
    ks_bytes_clear(bytes);
    return copy;
}

TEST(worker_ids_do_not_look_like_other_rows)
{
    char longest[KS_WORKER_ID_MAX + 2] = {0};

    EXPECT(ks_native_is_worker_id(text("pod-a")));
    EXPECT(ks_native_is_worker_id(text("a#b")));
    EXPECT(ks_native_is_worker_id(text("gr\xc3\xbc\xc3\x9f")));
    EXPECT(!ks_native_is_worker_id(text("")));
    EXPECT(!ks_native_is_worker_id(text("#leader")));
    EXPECT(!ks_native_is_worker_id(text("a\nb")));
    EXPECT(!ks_native_is_worker_id(text("a\xff")));
    memset(longest, 'x', KS_WORKER_ID_MAX);
    EXPECT(ks_native_is_worker_id(text(longest)));
    longest[KS_WORKER_ID_MAX] = 'x';
    EXPECT(!ks_native_is_worker_id(ks_view_of(longest, KS_WORKER_ID_MAX + 1)));
}

TEST(boots_have_one_spelling)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "000000000000000",
                                      "00000000000000000",
                                      "000000000000000A",
                                      "000000000000000g",
                                      "0x00000000000000"};
    struct ks_bytes bytes;
    uint64_t boot = 0;

    ks_bytes_init(&bytes, 64);
    EXPECT_OK(ks_native_put_boot(&bytes, 0xABCDEF));
    EXPECT_STR(written(&bytes), "0000000000abcdef");
    EXPECT_OK(ks_native_get_boot(text("fedcba9876543210"), &boot));
    EXPECT_EQ_U64(boot, 0xFEDCBA9876543210);
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++)
        EXPECT(ks_err_is(ks_native_get_boot(text(bad[at]), &boot), KS_ERR_MALFORMED));
    ks_bytes_free(&bytes);
}

TEST(incarnations_read_as_they_were_written)
{
    static const struct ks_incarnation_text all[] = {
        {"pod-a", 1}, {"a", 0}, {"a#0000000000000001", UINT64_MAX}, {"with space", 7}};
    static const char *const bad[] = {"",
                                      "pod-a",
                                      "#0000000000000001",
                                      "pod-a#1",
                                      "pod-a0000000000000001",
                                      "#a#0000000000000001",
                                      "pod-a#000000000000000G"};
    struct ks_incarnation_text read;
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 512);
    for (size_t at = 0; at < sizeof(all) / sizeof(all[0]); at++) {
        EXPECT_OK(ks_native_put_incarnation(&bytes, &all[at]));
        EXPECT_OK(ks_native_get_incarnation(ks_bytes_view(&bytes), &read));
        EXPECT_STR(read.id, all[at].id);
        EXPECT_EQ_U64(read.boot, all[at].boot);
        ks_bytes_clear(&bytes);
    }
    EXPECT_OK(ks_native_put_incarnation(&bytes, &all[0]));
    EXPECT_STR(written(&bytes), "pod-a#0000000000000001");
    EXPECT(ks_err_is(ks_native_put_incarnation(&bytes, &(struct ks_incarnation_text){"", 1}),
                     KS_ERR_INVALID));
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++)
        EXPECT(ks_err_is(ks_native_get_incarnation(text(bad[at]), &read), KS_ERR_MALFORMED));
    ks_bytes_free(&bytes);
}

TEST(tokens_read_as_they_were_written)
{
    static const char *const bad[] = {"",
                                      "@1",
                                      "s@",
                                      "s",
                                      "s@1@2",
                                      "s@-1",
                                      "s@01",
                                      "a b@1",
                                      "s@9223372036854775808",
                                      "s@99999999999999999999"};
    const struct ks_store_token token = {"shardId-000000000001", INT64_MAX};
    struct ks_store_token read;
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 512);
    EXPECT_OK(ks_native_put_token(&bytes, &token));
    EXPECT_STR(written(&bytes), "shardId-000000000001@9223372036854775807");
    EXPECT_OK(ks_native_get_token(text("a.b_c-D@0"), &read));
    EXPECT_STR(read.shard, "a.b_c-D");
    EXPECT_EQ_U64(read.epoch, 0);
    EXPECT(ks_err_is(ks_native_put_token(&bytes, &(struct ks_store_token){"s", UINT64_MAX}),
                     KS_ERR_INVALID));
    EXPECT(
        ks_err_is(ks_native_put_token(&bytes, &(struct ks_store_token){"a@b", 1}), KS_ERR_INVALID));
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++)
        EXPECT(ks_err_is(ks_native_get_token(text(bad[at]), &read), KS_ERR_MALFORMED));
    ks_bytes_free(&bytes);
}

TEST(positions_are_words_or_digits)
{
    static const struct {
        const char *text;
        struct ks_position position;
    } good[] = {
        {"TRIM_HORIZON", {.kind = KS_POSITION_TRIM_HORIZON}},
        {"LATEST", {.kind = KS_POSITION_LATEST}},
        {"AT_TIMESTAMP", {.kind = KS_POSITION_AT_TIMESTAMP}},
        {"SHARD_END", {.kind = KS_POSITION_SHARD_END}},
        {"0", {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "0"}},
        {"123", {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "123"}},
        {"AT_SEQUENCE:123", {.kind = KS_POSITION_AT_SEQUENCE, .sequence = "123"}},
    };
    static const char *const bad[] = {"",   "trim_horizon", "SHARD_END ",    "01",     "1 ",
                                      "-1", "AT_SEQUENCE:", "AT_SEQUENCE:x", "LATESTS"};
    struct ks_position read;
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 512);
    for (size_t at = 0; at < sizeof(good) / sizeof(good[0]); at++) {
        EXPECT_OK(ks_native_put_position(&bytes, &good[at].position));
        EXPECT_STR(written(&bytes), good[at].text);
        EXPECT_OK(ks_native_get_position(text(good[at].text), &read));
        EXPECT_EQ_I64(read.kind, good[at].position.kind);
        EXPECT_STR(read.sequence, good[at].position.sequence);
        EXPECT_EQ_I64(read.sub_sequence, -1);
        EXPECT_EQ_I64(read.timestamp_ms, 0);
    }
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++)
        EXPECT(ks_err_is(ks_native_get_position(text(bad[at]), &read), KS_ERR_MALFORMED));
    read = (struct ks_position){.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "1x"};
    EXPECT(ks_err_is(ks_native_put_position(&bytes, &read), KS_ERR_INVALID));
    read.kind = (enum ks_position_kind)77;
    EXPECT(ks_err_is(ks_native_put_position(&bytes, &read), KS_ERR_INVALID));
    ks_bytes_free(&bytes);
}
