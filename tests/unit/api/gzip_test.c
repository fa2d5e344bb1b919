/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gzip.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static struct ks_bytes packed;
static struct ks_bytes out;

static void pack(size_t size, size_t max)
{
    static uint8_t zeros[8 << 20];

    ks_bytes_init(&packed, max);
    EXPECT(size <= sizeof(zeros));
    EXPECT_OK(ks_gzip_pack(ks_view_of(zeros, size), &packed));
}

TEST(what_is_packed_comes_back)
{
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 1000000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pack(sizes[i], 1 << 20);
        /* Exactly its size is enough. */
        ks_bytes_init(&out, sizes[i] == 0 ? 1 : sizes[i]);
        EXPECT_OK(ks_gzip_unpack(ks_bytes_view(&packed), &out));
        EXPECT_EQ_U64(out.size, sizes[i]);
        ks_bytes_free(&packed);
        ks_bytes_free(&out);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* The promise: memory is bounded by what may come out, whatever goes in. */
TEST(a_small_message_that_unpacks_to_much_meets_the_limit)
{
    pack(8 << 20, 1 << 20);
    EXPECT(packed.size < 64 << 10);
    ks_bytes_init(&out, 1 << 20);
    EXPECT_ERR(ks_gzip_unpack(ks_bytes_view(&packed), &out), FULL);
    EXPECT(out.size <= 1 << 20);
    EXPECT(out.capacity <= 1 << 20);
    ks_bytes_free(&packed);
    ks_bytes_free(&out);
}

TEST(what_is_cut_or_changed_or_followed_by_more_is_refused)
{
    pack(1000, 1 << 20);
    ks_bytes_init(&out, 1 << 20);
    for (size_t size = 0; size < packed.size; size++) {
        ks_bytes_clear(&out);
        EXPECT_ERR(ks_gzip_unpack(ks_view_of(packed.data, size), &out), MALFORMED);
    }
    packed.data[packed.size - 6] ^= 1; /* Of the checksum. */
    EXPECT_ERR(ks_gzip_unpack(ks_bytes_view(&packed), &out), MALFORMED);
    packed.data[packed.size - 6] ^= 1;
    EXPECT_OK(ks_bytes_append_byte(&packed, 0));
    EXPECT_ERR(ks_gzip_unpack(ks_bytes_view(&packed), &out), MALFORMED);
    EXPECT_ERR(ks_gzip_unpack(KS_VIEW("{\"not\":\"gzip\"}"), &out), MALFORMED);
    ks_bytes_free(&packed);
    ks_bytes_free(&out);
}

TEST(packing_meets_the_limit_too)
{
    ks_bytes_init(&packed, 10);
    EXPECT_ERR(ks_gzip_pack(KS_VIEW("more than ten bytes when packed"), &packed), FULL);
    ks_bytes_free(&packed);
}
