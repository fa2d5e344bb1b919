/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies are read in the block in which they came: every kind of string, in every order, is what was written, wherever
 * it moves; and whatever bytes come, nothing beyond them is read or written. Both formats; by what was written, and by
 * a second reading.
 */
#include "adapters/kinesis/records.h"

#include "aws/cbor.h"
#include "base/base64.h"
#include "base/codec.h"
#include "base/prng.h"

#include "body_block.h"
#include "ks_test.h"
#include "records_again.h"

#include <stdio.h>

enum {
    BODY_MAX = 4 << 20,
    RECORDS = 12,
    DATA_MAX = 3000,
    KEY_MAX = 120,
    PLAIN_MAX = 100 << 10,
    NOISE_MAX = 900,
    ROOM_FOR = 100 /* Records. */
};

enum format { CBOR, JSON };

struct known {
    uint8_t data[DATA_MAX];
    size_t size;
    uint8_t key[KEY_MAX];
    size_t key_size;
    char sequence[64];
    int64_t arrival_ms;
};

/* A body while it is written. Each choice is the generator's. */
struct writer {
    struct ks_bytes bytes;
    struct ks_prng prng;
    enum format format;
    bool comma;       /* Before the next member or item. */
    uint64_t longest; /* Of members that nobody knows, and pieces of chunked strings. */
};

static struct known known[RECORDS];

static bool one_of(struct writer *writer, uint64_t times)
{
    return ks_prng_below(&writer->prng, times) == 0;
}

static void raw(struct writer *writer, const char *text)
{
    EXPECT_OK(ks_bytes_append(&writer->bytes, ks_view_text(text)));
}

static void byte(struct writer *writer, uint8_t value)
{
    EXPECT_OK(ks_bytes_append_byte(&writer->bytes, value));
}

/* --- Strings --- */

/* In pieces of any size, none of them too. Text is cut between characters. */
static void put_chunks(struct writer *writer, ks_view string, bool text)
{
    byte(writer, text ? 0x7F : 0x5F);
    while (string.size > 0) {
        size_t size = (size_t)ks_prng_below(&writer->prng, one_of(writer, 3) ? writer->longest : 5);
        ks_view piece = ks_view_of(string.data, size < string.size ? size : string.size);
        if (text)
            piece.size = ks_view_whole_characters(piece);
        EXPECT_OK(text ? ks_cbor_put_text(&writer->bytes, piece)
                       : ks_cbor_put_bytes(&writer->bytes, piece));
        string = ks_view_of(string.data + piece.size, string.size - piece.size);
    }
    byte(writer, 0xFF);
}

static void put_escaped(struct writer *writer, uint8_t character)
{
    char text[8];

    if (one_of(writer, 2))
        (void)snprintf(text, sizeof(text), "\\u%04x", character);
    else if (character == '/' || character == '"' || character == '\\')
        (void)snprintf(text, sizeof(text), "\\%c", character);
    else
        (void)snprintf(text, sizeof(text), "%c", character);
    raw(writer, text);
}

static void put_json_text(struct writer *writer, ks_view text)
{
    bool escapes = one_of(writer, 3);

    byte(writer, '"');
    for (size_t at = 0; at < text.size; at++) {
        uint8_t character = text.data[at];
        bool must = character == '"' || character == '\\';
        if (must || (escapes && character < 0x80 && one_of(writer, 4)))
            put_escaped(writer, character);
        else
            byte(writer, character);
    }
    byte(writer, '"');
}

static void put_text(struct writer *writer, ks_view text)
{
    if (writer->format == JSON)
        put_json_text(writer, text);
    else if (one_of(writer, 3))
        put_chunks(writer, text, true);
    else
        EXPECT_OK(ks_cbor_put_text(&writer->bytes, text));
}

static void put_data(struct writer *writer, ks_view data)
{
    static char base64[PLAIN_MAX / 3 * 4 + 8];
    size_t size = ks_base64_encode(data, base64);

    if (writer->format == JSON || one_of(writer, 2))
        put_text(writer, ks_view_of((const uint8_t *)base64, size));
    else if (one_of(writer, 2))
        put_chunks(writer, data, false);
    else
        EXPECT_OK(ks_cbor_put_bytes(&writer->bytes, data));
}

/* --- Members --- */

/* Names come in one piece: what a chunked one is equal to is asked elsewhere. */
static void put_name(struct writer *writer, const char *name)
{
    if (writer->format == CBOR) {
        EXPECT_OK(ks_cbor_put_text(&writer->bytes, ks_view_text(name)));
        return;
    }
    EXPECT_OK(ks_bytes_format(&writer->bytes, "%s\"%s\"%s:", writer->comma ? "," : "", name,
                              one_of(writer, 4) ? " " : ""));
    writer->comma = true;
}

static void open_with(struct writer *writer, uint8_t cbor, uint8_t json)
{
    byte(writer, writer->format == CBOR ? cbor : json);
    writer->comma = false;
}

static void close_with(struct writer *writer, uint8_t json)
{
    byte(writer, writer->format == CBOR ? 0xFF : json);
    writer->comma = true;
}

/* A member that nobody knows, or that is null: its value is long or short, and may look like one that is known. */
static void put_unknown(struct writer *writer)
{
    static const uint8_t noise[NOISE_MAX] = {0};
    const char *null = writer->format == JSON ? "null" : "\xF6";

    switch (ks_prng_below(&writer->prng, 4)) {
    case 0:
        put_name(writer, one_of(writer, 2) ? "Data" : "SequenceNumber");
        raw(writer, null);
        break;
    case 1:
        put_name(writer, "Noise");
        put_data(writer, ks_view_of(noise, ks_prng_below(&writer->prng, writer->longest)));
        break;
    case 2:
        put_name(writer, "Within");
        open_with(writer, 0xBF, '{');
        put_name(writer, "Data");
        put_text(writer, KS_VIEW("AAAA"));
        close_with(writer, '}');
        break;
    default:
        put_name(writer, "Data"); /* The one that comes last counts. */
        put_data(writer, KS_VIEW("decoy"));
        break;
    }
}

static void put_member(struct writer *writer, const struct known *record, uint32_t which)
{
    switch (which) {
    case 0:
        put_name(writer, "Data");
        put_data(writer, ks_view_of(record->data, record->size));
        break;
    case 1:
        put_name(writer, "PartitionKey");
        put_text(writer, ks_view_of(record->key, record->key_size));
        break;
    case 2:
        put_name(writer, "SequenceNumber");
        if (writer->format == JSON) /* Digits are never escaped. */
            EXPECT_OK(ks_bytes_format(&writer->bytes, "\"%s\"", record->sequence));
        else
            put_text(writer, ks_view_text(record->sequence));
        break;
    default:
        put_name(writer, "ApproximateArrivalTimestamp");
        if (writer->format == JSON)
            EXPECT_OK(ks_bytes_format(&writer->bytes, "%" PRId64 ".%03d", record->arrival_ms / 1000,
                                      (int)(record->arrival_ms % 1000)));
        else
            EXPECT_OK(ks_cbor_put_unix_ms(&writer->bytes, record->arrival_ms));
    }
}

static void shuffle(struct writer *writer, uint32_t *numbers, uint32_t count)
{
    for (uint32_t at = count; at > 1; at--) {
        uint32_t with = (uint32_t)ks_prng_below(&writer->prng, at);
        uint32_t number = numbers[at - 1];
        numbers[at - 1] = numbers[with];
        numbers[with] = number;
    }
}

static void put_record(struct writer *writer, const struct known *record, const uint32_t order[4],
                       bool unknown)
{
    bool written = false;

    if (writer->format == JSON && writer->comma)
        byte(writer, ',');
    open_with(writer, 0xBF, '{');
    for (int at = 0; at < 4; at++) {
        /* Behind the data a second one would count. */
        if (unknown && !written && one_of(writer, 3))
            put_unknown(writer);
        put_member(writer, record, order[at]);
        written = written || order[at] == 0;
    }
    close_with(writer, '}');
}

static void put_iterator(struct writer *writer)
{
    put_name(writer, "NextShardIterator");
    put_text(writer, KS_VIEW("AAA/next"));
}

/* All of `known` up to `count`. */
static void put_answer(struct writer *writer, uint32_t count)
{
    bool first = one_of(writer, 2);

    ks_bytes_clear(&writer->bytes);
    open_with(writer, 0xBF, '{');
    if (first)
        put_iterator(writer);
    if (one_of(writer, 3))
        put_unknown(writer);
    put_name(writer, "Records");
    open_with(writer, 0x9F, '[');
    for (uint32_t at = 0; at < count; at++) {
        uint32_t order[4] = {0, 1, 2, 3};
        shuffle(writer, order, 4);
        put_record(writer, &known[at], order, true);
    }
    close_with(writer, ']');
    if (!first)
        put_iterator(writer);
    close_with(writer, '}');
}

/* --- Known records --- */

static void fill(struct ks_prng *prng, uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++)
        bytes[at] = (uint8_t)ks_prng_next(prng);
}

static void make_key(struct ks_prng *prng, struct known *record)
{
    static const char *const PARTS[] = {"k", "\xD0\xBA", "/", "\"", "\\", "\xF0\x9F\x90\x9F", "9"};
    size_t wanted = 1 + (size_t)ks_prng_below(prng, KEY_MAX - 4);

    record->key_size = 0;
    while (record->key_size < wanted) {
        const char *part = PARTS[ks_prng_below(prng, sizeof(PARTS) / sizeof(PARTS[0]))];
        memcpy(record->key + record->key_size, part, strlen(part));
        record->key_size += strlen(part);
    }
}

static void make_known(struct ks_prng *prng, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        struct known *record = &known[at];
        uint64_t most = ks_prng_below(prng, 3) == 0 ? DATA_MAX : 60;
        record->size = (size_t)ks_prng_below(prng, most + 1);
        fill(prng, record->data, record->size);
        make_key(prng, record);
        (void)snprintf(record->sequence, sizeof(record->sequence), "4968%0*" PRIu64,
                       (int)ks_prng_below(prng, 40), ks_prng_below(prng, 1000));
        record->arrival_ms = 1795223827000 + (int64_t)ks_prng_below(prng, 1000000);
    }
}

/* --- Reading --- */

static ks_err read_at(enum format format, struct ks_budget *budget, size_t begin, ks_view body,
                      enum body_room room, struct ks_records *ret_records)
{
    struct ks_block *block = body_block(budget, begin, body, room, ROOM_FOR);

    return format == CBOR ? ks_records_cbor(block, begin, ROOM_FOR, ret_records)
                          : ks_records_json(block, begin, ROOM_FOR, ret_records);
}

static bool within(const struct ks_block *block, ks_view view)
{
    return view.data >= block->data && view.data + view.size <= block->data + block->size;
}

static void expect_known(const struct ks_batch *batch, uint32_t count)
{
    EXPECT_EQ_U64(batch->count, count);
    EXPECT_EQ_U64(batch->block->size, batch->block->capacity);
    for (uint32_t at = 0; at < count; at++) {
        const struct ks_record *record = &batch->records[at];
        const struct known *expected = &known[at];
        EXPECT(within(batch->block, record->data) && within(batch->block, record->partition_key) &&
               within(batch->block, record->sequence));
        EXPECT(ks_view_equal(record->data, ks_view_of(expected->data, expected->size)));
        EXPECT(ks_view_equal(record->partition_key, ks_view_of(expected->key, expected->key_size)));
        EXPECT(ks_view_equal(record->sequence, ks_view_text(expected->sequence)));
        EXPECT_EQ_I64(record->arrival_ms, expected->arrival_ms);
    }
}

static void expect_read(struct writer *writer, size_t begin, enum body_room room, uint32_t count)
{
    struct ks_records records;
    struct ks_budget budget;
    ks_view body = ks_bytes_view(&writer->bytes);
    size_t needed = ks_builder_capacity(begin + body.size, ROOM_FOR);

    ks_budget_init(&budget, 16 << 20);
    EXPECT_OK(read_at(writer->format, &budget, begin, body, room, &records));
    /* One block, and a second one only where it had to move. */
    EXPECT_EQ_U64(budget.most, room == BODY_FITS ? needed : needed + begin + body.size);
    EXPECT_EQ_U64(budget.used, records.batch.block->capacity);
    EXPECT(records.batch.block->capacity <= needed);
    EXPECT_STR(records.iterator, "AAA/next");
    expect_known(&records.batch, count);
    ks_batch_free(&records.batch);
    EXPECT_EQ_U64(budget.used, 0);
}

static struct writer writer_of(enum format format, uint64_t seed)
{
    struct writer writer = {.format = format, .longest = NOISE_MAX};

    ks_bytes_init(&writer.bytes, BODY_MAX);
    ks_prng_init(&writer.prng, seed);
    return writer;
}

/* --- The tests --- */

TEST(random_answers_are_read_as_they_were_written)
{
    for (int format = CBOR; format <= JSON; format++) {
        for (uint64_t seed = 1; seed <= 200; seed++) {
            struct writer writer = writer_of((enum format)format, seed);
            uint32_t count = (uint32_t)ks_prng_below(&writer.prng, RECORDS + 1);
            make_known(&writer.prng, count);
            put_answer(&writer, count);
            expect_read(&writer, 0, BODY_FITS, count);
            expect_read(&writer, 0, BODY_TIGHT, count);
            expect_read(&writer, 1 + seed % 200, BODY_FITS, count);
            expect_read(&writer, 1 + seed % 200, BODY_TIGHT, count);
            ks_bytes_free(&writer.bytes);
        }
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(members_may_come_in_every_order)
{
    for (int format = CBOR; format <= JSON; format++) {
        for (uint32_t at = 0; at < 4 * 4 * 4 * 4; at++) {
            const uint32_t order[4] = {at % 4, at / 4 % 4, at / 16 % 4, at / 64};
            if ((1U << order[0] | 1U << order[1] | 1U << order[2] | 1U << order[3]) != 0xF)
                continue;
            struct writer writer = writer_of((enum format)format, at);
            make_known(&writer.prng, RECORDS);
            known[1].size = 2000;
            fill(&writer.prng, known[1].data, known[1].size);
            open_with(&writer, 0xBF, '{');
            put_iterator(&writer);
            put_name(&writer, "Records");
            open_with(&writer, 0x9F, '[');
            for (uint32_t record = 0; record < RECORDS; record++)
                put_record(&writer, &known[record], order, false);
            close_with(&writer, ']');
            close_with(&writer, '}');
            expect_read(&writer, 0, BODY_FITS, RECORDS);
            ks_bytes_free(&writer.bytes);
        }
    }
}

/* --- One record of data of any size --- */

static uint8_t plain[PLAIN_MAX + 1];

static void expect_plain(enum format format, size_t size, uint64_t seed)
{
    struct writer writer = writer_of(format, seed);
    struct ks_records records;

    open_with(&writer, 0xBF, '{');
    put_name(&writer, "Records");
    open_with(&writer, 0x9F, '[');
    open_with(&writer, 0xBF, '{');
    put_name(&writer, "Data");
    put_data(&writer, ks_view_of(plain, size));
    put_name(&writer, "SequenceNumber");
    raw(&writer, format == JSON ? "\"7\"" : "\x61\x37");
    put_name(&writer, "PartitionKey");
    raw(&writer, format == JSON ? "\"key\"" : "ckey");
    close_with(&writer, '}');
    close_with(&writer, ']');
    close_with(&writer, '}');
    EXPECT_OK(read_at(format, NULL, 0, ks_bytes_view(&writer.bytes), BODY_FITS, &records));
    EXPECT_EQ_U64(records.batch.count, 1);
    const struct ks_record *record = &records.batch.records[0];
    EXPECT_EQ_U64(record->data.size, size);
    EXPECT_MEM(record->data.data, plain, size);
    EXPECT(ks_view_equal(record->sequence, KS_VIEW("7")));
    EXPECT(ks_view_equal(record->partition_key, KS_VIEW("key")));
    ks_batch_free(&records.batch);
    ks_bytes_free(&writer.bytes);
}

TEST(data_of_every_size_is_kept_in_every_kind_of_string)
{
    struct ks_prng prng;

    ks_prng_init(&prng, 1);
    fill(&prng, plain, sizeof(plain));
    for (int format = CBOR; format <= JSON; format++) {
        for (size_t size = 0; size <= 300; size++) {
            for (uint64_t seed = 0; seed < 8; seed++)
                expect_plain((enum format)format, size, seed);
        }
        for (size_t size = 505; size < 520; size++) /* About where a piece stays. */
            expect_plain((enum format)format, size, size);
        for (size_t size = 1 << 10; size <= PLAIN_MAX; size = size * 5 / 3 + 1) {
            for (uint64_t seed = 0; seed < 6; seed++)
                expect_plain((enum format)format, size, seed);
        }
    }
}

/* --- Bytes that nobody would write --- */

/* What is taken for an answer is one to the second reader, too, with the same records; and wherever the body lies, and
 * whatever lies behind it, the first one says the same. */
static void expect_right(enum format format, ks_view body)
{
    static uint8_t buffer[2 * 4096 + 32];
    struct ks_records records;
    struct ks_records moved;
    struct ks_budget budget;

    EXPECT(body.size <= 4096);
    ks_budget_init(&budget, 1 << 20);
    ks_err err = read_at(format, &budget, 0, body, BODY_FITS, &records);
    ks_err again = read_at(format, &budget, 33, body, BODY_TIGHT, &moved);
    EXPECT_STR(ks_err_name(again), ks_err_name(err));
    if (ks_ok(err)) {
        for (uint32_t at = 0; at < records.batch.count; at++) {
            EXPECT(within(records.batch.block, records.batch.records[at].data));
            EXPECT(within(records.batch.block, records.batch.records[at].partition_key));
            EXPECT(within(records.batch.block, records.batch.records[at].sequence));
        }
        EXPECT(format == CBOR ? again_cbor(body, &records.batch, buffer)
                              : again_json(body, &records.batch, buffer));
        EXPECT(format == CBOR ? again_cbor(body, &moved.batch, buffer)
                              : again_json(body, &moved.batch, buffer));
        ks_batch_free(&records.batch);
        ks_batch_free(&moved.batch);
    } else {
        EXPECT_ERR(err, MALFORMED);
    }
    EXPECT_EQ_U64(budget.used, 0);
}

/* An answer of a few hundred bytes; three of them have every kind of string. */
static void put_hostile(struct writer *writer)
{
    writer->longest = 12;
    make_known(&writer->prng, 2);
    for (uint32_t at = 0; at < 2; at++) {
        known[at].size %= 16;
        known[at].key_size = 4;
        memcpy(known[at].key, "k/\"9", 4);
    }
    put_answer(writer, 2);
}

TEST(an_answer_that_is_cut_anywhere_is_none)
{
    struct ks_records records;

    for (int format = CBOR; format <= JSON; format++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct writer writer = writer_of((enum format)format, seed);
            put_hostile(&writer);
            for (size_t size = 0; size < writer.bytes.size; size++) {
                ks_view cut = ks_view_of(writer.bytes.data, size);
                EXPECT_ERR(read_at((enum format)format, NULL, 0, cut, BODY_FITS, &records),
                           MALFORMED);
                EXPECT_ERR(read_at((enum format)format, NULL, 7, cut, BODY_TIGHT, &records),
                           MALFORMED);
            }
            ks_bytes_free(&writer.bytes);
        }
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(an_answer_with_any_byte_changed_is_none_or_read_right)
{
    for (int format = CBOR; format <= JSON; format++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct writer writer = writer_of((enum format)format, seed);
            put_hostile(&writer);
            for (size_t at = 0; at < writer.bytes.size; at++) {
                uint8_t was = writer.bytes.data[at];
                for (int value = 0; value < 256; value++) {
                    writer.bytes.data[at] = (uint8_t)value;
                    expect_right((enum format)format, ks_bytes_view(&writer.bytes));
                }
                writer.bytes.data[at] = was;
            }
            ks_bytes_free(&writer.bytes);
        }
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
