/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "adapters/kinesis/polling.h"
#include "base/codec.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static const char FIRST[] = "shardId-000000000000";
static const char SECOND[] = "shardId-000000000001";
static const char THIRD[] = "shardId-000000000002";

/* --- Ends of shards --- */

static const struct ks_shard_listing *find(const struct stream_listing *listing, const char *shard)
{
    for (uint32_t at = 0; at < listing->count; at++) {
        if (strcmp(listing->shards[at].shard, shard) == 0)
            return &listing->shards[at];
    }
    FAIL("%s is not listed", shard);
}

void stream_suite_a_split_ends_the_parent_after_its_last_record(struct stream_rig *rig)
{
    static struct stream_listing listing;
    static struct stream_copy copy;
    struct ks_put_result put;
    struct stream_read read;

    struct ks_reader *early = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    for (int at = 0; at < 5; at++)
        stream_rig_put(rig, "k", NULL, "parent", &put);
    stream_rig_collect(rig, early, 2, 2, &copy);
    EXPECT(!copy.at_end);
    rig->adapter->split(rig, FIRST, "1000");
    stream_rig_put(rig, "k", "999", "child", NULL);

    stream_rig_collect(rig, early, 100, 2, &copy);
    EXPECT_EQ_U64(copy.count, 3);
    EXPECT(copy.at_end);
    if (rig->adapter->tells_children) {
        EXPECT_STR(copy.children[0], SECOND);
        EXPECT_STR(copy.children[1], THIRD);
    }
    /* Who asks again is told again. */
    stream_rig_read(rig, early, 10, &read);
    EXPECT_OK(read.answer.err);
    EXPECT(read.answer.batch.at_end);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    ks_batch_free(&read.answer.batch);
    stream_rig_close(rig, early);

    /* From behind the last record it is the end at once. */
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AFTER_SEQUENCE, put.sequence, 0, 1, &copy);
    EXPECT_EQ_U64(copy.count, 0);
    EXPECT(copy.at_end);

    stream_rig_list(rig, rig->source, 0, &listing);
    EXPECT_EQ_U64(listing.count, 3);
    EXPECT(find(&listing, FIRST)->closed);
    EXPECT(!find(&listing, SECOND)->closed);
    EXPECT_STR(find(&listing, SECOND)->parents[0], FIRST);
    EXPECT_STR(find(&listing, SECOND)->parents[1], "");
    EXPECT_STR(find(&listing, SECOND)->hash_end, "999");
    EXPECT_STR(find(&listing, THIRD)->parents[0], FIRST);
    EXPECT_STR(find(&listing, THIRD)->hash_start, "1000");
    stream_rig_collect_from(rig, SECOND, KS_POSITION_TRIM_HORIZON, NULL, 0, 1, &copy);
    EXPECT_STR((char *)copy.records[0].data, "child");
    EXPECT(strcmp(copy.records[0].sequence, put.sequence) > 0);
}

void stream_suite_a_merge_ends_both_parents(struct stream_rig *rig)
{
    static struct stream_listing listing;
    static struct stream_copy copy;

    stream_rig_put(rig, "k", "0", "left", NULL);
    stream_rig_put(rig, "k", "340282366920938463463374607431768211455", "right", NULL);
    rig->adapter->merge(rig, FIRST, SECOND);
    stream_rig_collect_from(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0, 100, &copy);
    EXPECT_EQ_U64(copy.count, 1);
    EXPECT(copy.at_end);
    if (rig->adapter->tells_children) {
        EXPECT_STR(copy.children[0], THIRD);
        EXPECT_STR(copy.children[1], "");
    }
    stream_rig_collect_from(rig, SECOND, KS_POSITION_TRIM_HORIZON, NULL, 0, 100, &copy);
    EXPECT_STR((char *)copy.records[0].data, "right");
    EXPECT(copy.at_end);

    stream_rig_list(rig, rig->source, 0, &listing);
    EXPECT_EQ_U64(listing.count, 3);
    EXPECT_STR(find(&listing, THIRD)->parents[0], FIRST);
    EXPECT_STR(find(&listing, THIRD)->parents[1], SECOND);
    EXPECT_STR(find(&listing, THIRD)->hash_start, "0");
    EXPECT_STR(find(&listing, THIRD)->hash_end, "340282366920938463463374607431768211455");
    EXPECT(find(&listing, FIRST)->closed);
    EXPECT(find(&listing, SECOND)->closed);
    EXPECT(!find(&listing, THIRD)->closed);
}

/* True if the shard is in the listing from this instant on. */
static bool lists(struct stream_rig *rig, int64_t since_ms, const char *shard)
{
    static struct stream_listing listing;
    bool found = false;

    stream_rig_list(rig, rig->source, since_ms, &listing);
    for (uint32_t at = 0; at < listing.count; at++)
        found = found || strcmp(listing.shards[at].shard, shard) == 0;
    return found;
}

void stream_suite_shards_closed_before_an_instant_are_left_out(struct stream_rig *rig)
{
    static const char FOURTH[] = "shardId-000000000003";
    int apart_ms = rig->adapter->is_kinesis ? 1100 : 20; /* kinesis-local knows seconds. */
    int64_t before;
    int64_t between;
    int64_t after;

    before = ks_wall_now().ms;
    stream_rig_turn_for(rig, apart_ms);
    rig->adapter->split(rig, FIRST, "1000");
    stream_rig_turn_for(rig, apart_ms);
    between = ks_wall_now().ms;
    stream_rig_turn_for(rig, apart_ms);
    rig->adapter->merge(rig, SECOND, THIRD);
    stream_rig_turn_for(rig, apart_ms);
    after = ks_wall_now().ms;

    for (const char *const *shard = (const char *const[]){FIRST, SECOND, THIRD, FOURTH, NULL};
         *shard != NULL; shard++) {
        EXPECT(lists(rig, 0, *shard));
        EXPECT(lists(rig, before, *shard));
    }
    /* Where the server cannot tell, it is all of them, and a start at an instant brings more than it should. */
    EXPECT(lists(rig, between, FIRST) != rig->adapter->lists_since);
    EXPECT(lists(rig, between, SECOND));
    EXPECT(lists(rig, between, THIRD));
    EXPECT(lists(rig, after, SECOND) != rig->adapter->lists_since);
    EXPECT(lists(rig, after, THIRD) != rig->adapter->lists_since);
    EXPECT(lists(rig, after, FOURTH));
    /* An instant that has not come yet is now. */
    EXPECT(lists(rig, after + 3600000, FOURTH));
}

/* --- Iterators --- */

/* Both emulators encrypt "ms/stream/shard/sequence/padding" under the same published key. */
static const char KEY[] = "1133a5a833666b49abf28c8ba302930f0b2fb240dccd43cf4dfbc0ca91f17751";
static const char IV[] = "7bf139dbabbea2d9995d6fcae1dff7da";
enum { HEAD = 8, EXPIRED_MS = 301000 };

static size_t crypt_all(bool encrypts, const uint8_t *from, size_t size, uint8_t *to)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t key[32];
    uint8_t iv[16];
    int first = 0;
    int last = 0;

    EXPECT_OK(ks_hex_decode(ks_view_text(KEY), key));
    EXPECT_OK(ks_hex_decode(ks_view_text(IV), iv));
    EXPECT(EVP_CipherInit_ex(context, EVP_aes_256_cbc(), NULL, key, iv, encrypts ? 1 : 0) == 1);
    EXPECT(EVP_CipherUpdate(context, to, &first, from, (int)size) == 1);
    EXPECT(EVP_CipherFinal_ex(context, to + first, &last) == 1);
    EVP_CIPHER_CTX_free(context);
    return (size_t)(first + last);
}

/* Makes the reader's iterator one that was given 301 s ago. */
static void expire(struct ks_reader *reader)
{
    const char *iterator = ks_kinesis_reader_iterator(reader);
    uint8_t sealed[1024] = {0};
    uint8_t plain[1024] = {0};
    char digits[24];
    char forged[1400];
    size_t size = 0;

    EXPECT(iterator[0] != '\0');
    EXPECT_OK(ks_base64_decode(ks_view_text(iterator), sealed, &size));
    size = crypt_all(false, sealed + HEAD, size - HEAD, plain);
    const char *slash = memchr(plain, '/', size);
    EXPECT(slash != NULL);
    int width = (int)(slash - (const char *)plain);
    (void)snprintf(digits, sizeof(digits), "%0*lld", width,
                   (long long)(ks_wall_now().ms - EXPIRED_MS));
    memcpy(plain, digits, (size_t)width);
    size = crypt_all(true, plain, size, sealed + HEAD);
    size = ks_base64_encode(ks_view_of(sealed, HEAD + size), forged);
    forged[size] = '\0';
    ks_kinesis_reader_set_iterator(reader, forged);
}

static void damage(struct ks_reader *reader)
{
    EXPECT(ks_kinesis_reader_iterator(reader)[0] != '\0');
    ks_kinesis_reader_set_iterator(reader, "AAAAAAAAAAHnobodymadethis==");
}

/* Reads some records, spoils the iterator, and expects the rest, each once. */
static void goes_on(struct stream_rig *rig, void (*spoil)(struct ks_reader *reader))
{
    static struct stream_copy copy;
    char data[8];

    for (int at = 0; at < 6; at++) {
        (void)snprintf(data, sizeof(data), "%d", at);
        stream_rig_put(rig, "k", NULL, data, NULL);
    }
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    stream_rig_collect(rig, reader, 2, 2, &copy);
    EXPECT_EQ_U64(copy.count, 2);
    spoil(reader);
    stream_rig_collect(rig, reader, 4, 2, &copy);
    EXPECT_EQ_U64(copy.count, 4);
    for (int at = 0; at < 4; at++)
        EXPECT_EQ_I64(copy.records[at].data[0], '2' + at);
    stream_rig_close(rig, reader);
}

void stream_suite_an_expired_iterator_is_renewed_where_it_was(struct stream_rig *rig)
{
    goes_on(rig, expire);
}

void stream_suite_an_iterator_that_the_server_refuses_is_renewed(struct stream_rig *rig)
{
    goes_on(rig, damage);
}

void stream_suite_an_iterator_expired_before_any_record_begins_again(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct stream_read read;

    stream_rig_put(rig, "k", NULL, "old", NULL);
    /* More than what is known of the server's clock is behind it. */
    stream_rig_turn_for(rig, 1500);
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_LATEST, NULL, 0);
    stream_rig_read(rig, reader, 10, &read);
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    ks_batch_free(&read.answer.batch);
    stream_rig_put(rig, "k", NULL, "new", NULL);
    expire(reader);
    stream_rig_collect(rig, reader, 1, 10, &copy);
    EXPECT_EQ_U64(copy.count, 1);
    EXPECT_STR((char *)copy.records[0].data, "new");
    stream_rig_close(rig, reader);
}

struct description {
    uint32_t times;
    struct ks_describe_answer answer;
};

static void keep_description(void *arg, const struct ks_describe_answer *answer)
{
    struct description *kept = arg;

    kept->times++;
    kept->answer = *answer;
}

void stream_suite_a_stream_that_is_not_there_is_said_so(struct stream_rig *rig)
{
    struct description told = {.times = 0};
    struct ks_detail detail;
    char name[64];
    struct ks_stream_source *source;

    memcpy(name, rig->stream, sizeof(name));
    (void)snprintf(rig->stream, sizeof(rig->stream), "no-such-stream");
    source = rig->adapter->open(rig, 0);
    EXPECT_EQ_I64(source->vtable->state(source, &detail), KS_STORE_OPENING);
    source->vtable->describe(source, keep_description, &told);
    stream_rig_wait(rig, &told.times, STREAM_WAIT_SECONDS);
    EXPECT_ERR(told.answer.err, NOT_FOUND);
    EXPECT_CONTAINS(told.answer.detail.text, "no-such-stream");
    EXPECT_EQ_I64(source->vtable->state(source, &detail), KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(detail.text, "no-such-stream");
    source->vtable->close(source);
    memcpy(rig->stream, name, sizeof(rig->stream));
}
