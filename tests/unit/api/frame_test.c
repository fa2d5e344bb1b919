/* SPDX-License-Identifier: Apache-2.0 */
/* What is written by hand is read back by protobuf-c and by jansson. */
#include "api/frame.h"
#include "api/limits.h"
#include "api/message.h"
#include "ks_test.h"
#include "ports/switchboard.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 32 << 20 };

static struct ks_record records[8];
static ks_number missing = UINT64_MAX;
static bool redriven; /* The records are dead letters. */
static uint8_t *out;
static size_t out_size;

static const struct ks_record *record_of(void *arg, ks_number number)
{
    (void)arg;
    EXPECT(number >= 100 && number < 108);
    return number >= missing ? NULL : &records[number - 100];
}

static const struct ks_ack_key key = {{11, 22}, 33, 0};

static void begin(struct ks_framer *framer, enum ks_frame_format format, uint32_t count)
{
    struct ks_ack_stamp stamp;
    struct ks_frame_names names = {"batch", "the-stream", "shardId-000000000003"};
    struct ks_ack_run run = {3, 9, 100, count, 1};

    ks_framer_init(framer, format, (struct ks_frame_source){record_of, NULL});
    if (redriven)
        run = (struct ks_ack_run){KS_SHARD_NONE, 0, 100, count, 1};
    ks_ack_stamp_init(&stamp, &key, 1, 2, &run);
    ks_framer_begin(framer, &stamp, &names, &run, 4);
}

/* Writes everything through buffers of `room` bytes. */
static enum ks_frame_state write_all(struct ks_framer *framer, size_t room)
{
    enum ks_frame_state state = KS_FRAME_FULL;

    out = out == NULL ? malloc(OUT_BYTES) : out;
    out_size = 0;
    while (state == KS_FRAME_FULL) {
        uint8_t *buffer = malloc(room);
        size_t size = ks_framer_fill(framer, buffer, room, &state);
        EXPECT(size <= room && out_size + size <= OUT_BYTES);
        EXPECT(size > 0 || state != KS_FRAME_FULL);
        memcpy(out + out_size, buffer, size);
        out_size += size;
        free(buffer);
    }
    return state;
}

static struct ks_record make_record(size_t bytes)
{
    static uint8_t data[10 << 20];
    struct ks_record record = {
        .data = {data, bytes},
        .partition_key = KS_VIEW("key-1"),
        .sequence = KS_VIEW("49590338271490256608559692538361571095921575989136588898"),
        .sub_sequence = -1,
        .arrival_ms = 1763685600123,
    };

    if (data[1] == 0)
        for (size_t i = 0; i < sizeof(data); i++)
            data[i] = (uint8_t)(i * 31 + (i >> 8) + 1);
    return record;
}

static void make_records(void)
{
    static const size_t sizes[8] = {0, 1, 2, 3, 1000, 50000, 7000, 5};

    for (size_t i = 0; i < 8; i++)
        records[i] = make_record(sizes[i]);
    records[1].partition_key = ks_view_of("\"\\\n\x01\xc3\xa9", 6);
    records[2].sub_sequence = 17;
    records[2].aggregated = true;
    records[3].arrival_ms = 0;
    records[5].arrival_ms += 900;
    records[6].arrival_ms += 100000;
}

/* ---- Protobuf ---- */

static void expect_text(const char *text, ks_view wanted)
{
    EXPECT(ks_view_equal(ks_view_text(text), wanted));
}

static void expect_record(const ks_pb_record *record, size_t i)
{
    struct ks_ack ack;

    EXPECT_EQ_I64(ks_ack_id_read(&key, ks_view_text(record->ack_id), &ack), KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.runs[0].first, 100 + i);
    EXPECT_STR(record->batch_id, "batch");
    EXPECT_STR(record->stream, "the-stream");
    EXPECT_STR(record->shard_id, "shardId-000000000003");
    EXPECT_EQ_U64(record->epoch, 9);
    expect_text(record->sequence_number, records[i].sequence);
    EXPECT_EQ_I64(record->sub_sequence_number, i == 2 ? 17 : 0);
    expect_text(record->partition_key, records[i].partition_key);
    EXPECT_EQ_I64(record->approximate_arrival_timestamp, records[i].arrival_ms);
    EXPECT_EQ_U64(record->attempt, 4);
    EXPECT_EQ_I64(record->aggregated, i == 2);
    EXPECT_EQ_U64(record->data.len, records[i].data.size);
    EXPECT(records[i].data.size == 0 ||
           memcmp(record->data.data, records[i].data.data, records[i].data.size) == 0);
}

static void expect_protobuf(size_t count)
{
    ks_view rest = {out, out_size};

    for (size_t i = 0; i < count; i++) {
        uint64_t size;
        ks_view frame;
        ks_pb_event *event;

        EXPECT_OK(ks_view_take_varint(&rest, &size));
        EXPECT_OK(ks_view_take(&rest, size, &frame));
        event = kinesis_sidecar__v1__stream_event__unpack(NULL, frame.size, frame.data);
        EXPECT(event != NULL);
        EXPECT_EQ_I64(event->event_case, KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_RECORD);
        expect_record(event->record, i);
        /* Nothing but what the generated code would write. */
        EXPECT_EQ_U64(kinesis_sidecar__v1__stream_event__get_packed_size(event), frame.size);
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
    EXPECT_EQ_U64(rest.size, 0);
}

TEST(protobuf_c_reads_what_is_written)
{
    struct ks_framer framer;

    make_records();
    begin(&framer, KS_FRAME_PROTOBUF, 8);
    EXPECT_EQ_I64(write_all(&framer, 1 << 20), KS_FRAME_DONE);
    expect_protobuf(8);
}

TEST(any_size_of_buffer_gives_the_same_protobuf)
{
    make_records();
    for (size_t room = KS_FILL_MIN; room < KS_FILL_MIN + 200; room += 7) {
        struct ks_framer framer;
        begin(&framer, KS_FRAME_PROTOBUF, 8);
        EXPECT_EQ_I64(write_all(&framer, room), KS_FRAME_DONE);
        expect_protobuf(8);
    }
}

/* The bytes of the generated code, one for one. */
TEST(the_frame_is_that_of_the_generated_code)
{
    struct ks_framer framer;
    ks_pb_event *event;
    uint8_t packed[4096];
    uint64_t size;
    ks_view rest;

    make_records();
    begin(&framer, KS_FRAME_PROTOBUF, 5);
    EXPECT_EQ_I64(write_all(&framer, 1 << 16), KS_FRAME_DONE);
    rest = ks_view_of(out, out_size);
    while (rest.size > 0) {
        EXPECT_OK(ks_view_take_varint(&rest, &size));
        event = kinesis_sidecar__v1__stream_event__unpack(NULL, size, rest.data);
        EXPECT(event != NULL);
        EXPECT_EQ_U64(kinesis_sidecar__v1__stream_event__pack(event, packed), size);
        EXPECT_MEM(rest.data, packed, size);
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
        EXPECT_OK(ks_view_take(&rest, size, &(ks_view){NULL, 0}));
    }
}

static size_t read_golden(const char *name, uint8_t *bytes, size_t room)
{
    char path[100];
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "proto/golden/%s.bin", name);
    file = fopen(path, "rb");
    if (file == NULL)
        FAIL("%s is not there; the tests run in the folder of the Makefile", path);
    size = fread(bytes, 1, room, file);
    EXPECT(fclose(file) == 0);
    return size;
}

/* Made by proto/golden/make.py, with another protobuf and another SipHash. */
TEST(the_golden_frames_are_written_byte_for_byte)
{
    static uint8_t data[256];
    uint8_t golden[1000];
    struct ks_framer framer;
    size_t size;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    records[0] = make_record(0);
    records[0].partition_key = ks_view_of("k\xc3\xa9y", 4);
    records[0].data = ks_view_of(data, sizeof(data));
    records[1] = records[0];
    records[1].data.size = 0;
    records[1].sub_sequence = 17;
    records[1].aggregated = true;
    begin(&framer, KS_FRAME_PROTOBUF, 2);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    size = read_golden("record", golden, sizeof(golden));
    size += read_golden("record_part", golden + size, sizeof(golden) - size);
    EXPECT_EQ_U64(out_size, size);
    EXPECT_MEM(out, golden, size);

    redriven = true;
    for (size_t room = KS_FILL_MIN; room < KS_FILL_MIN + 300; room += 7) {
        begin(&framer, KS_FRAME_PROTOBUF, 1);
        EXPECT_EQ_I64(write_all(&framer, room), KS_FRAME_DONE);
        size = read_golden("record_redriven", golden, sizeof(golden));
        EXPECT_EQ_U64(out_size, size);
        EXPECT_MEM(out, golden, size);
    }
}

/* ---- JSON ---- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    if (text == NULL)
        FAIL("no text %s", name);
    return text;
}

static void expect_object(const json_t *object, size_t i, bool line)
{
    const char *data = text_of(object, "data");
    uint8_t *decoded = malloc(ks_base64_decoded_max(strlen(data)) + 64);
    size_t size;

    EXPECT(line == (json_object_get(object, "type") != NULL));
    EXPECT(line == (json_object_get(object, "batch_id") != NULL));
    EXPECT_EQ_U64(strlen(text_of(object, "ack_id")), KS_ACK_ID_SIZE);
    EXPECT_STR(text_of(object, "stream"), "the-stream");
    EXPECT_STR(text_of(object, "shard_id"), "shardId-000000000003");
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "epoch")), 9);
    expect_text(text_of(object, "sequence_number"), records[i].sequence);
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "sub_sequence_number")),
                  i == 2 ? 17 : 0);
    expect_text(text_of(object, "partition_key"), records[i].partition_key);
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "attempt")), 4);
    EXPECT(json_is_true(json_object_get(object, "aggregated")) == (i == 2));
    EXPECT_OK(ks_base64_decode(ks_view_text(data), decoded, &size));
    EXPECT_EQ_U64(size, records[i].data.size);
    EXPECT(size == 0 || memcmp(decoded, records[i].data.data, size) == 0);
    free(decoded);
}

static void expect_instants(const json_t *object, size_t i)
{
    const json_t *instant = json_object_get(object, "approximate_arrival_timestamp");

    if (i == 3)
        EXPECT(json_is_null(instant));
    else if (i == 5)
        EXPECT_STR(json_string_value(instant), "2025-11-21T00:40:01.023Z");
    else if (i == 6)
        EXPECT_STR(json_string_value(instant), "2025-11-21T00:41:40.123Z");
    else
        EXPECT_STR(json_string_value(instant), "2025-11-21T00:40:00.123Z");
}

TEST(jansson_reads_every_line)
{
    make_records();
    for (size_t room = KS_FILL_MIN; room < 70000; room = room * 3 / 2 + 1) {
        struct ks_framer framer;
        ks_view rest;

        begin(&framer, KS_FRAME_NDJSON, 8);
        EXPECT_EQ_I64(write_all(&framer, room), KS_FRAME_DONE);
        rest = ks_view_of(out, out_size);
        for (size_t i = 0; i < 8; i++) {
            ks_view line = ks_view_cut(&rest, '\n');
            json_t *object =
                json_loadb((const char *)line.data, line.size, JSON_REJECT_DUPLICATES, NULL);
            EXPECT(object != NULL);
            EXPECT_STR(text_of(object, "type"), "record");
            EXPECT_STR(text_of(object, "batch_id"), "batch");
            expect_object(object, i, true);
            expect_instants(object, i);
            json_decref(object);
        }
        EXPECT_EQ_U64(rest.size, 0);
    }
}

TEST(elements_make_an_array)
{
    struct ks_framer framer;
    json_t *array;

    make_records();
    begin(&framer, KS_FRAME_JSON, 8);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    memmove(out + 1, out, out_size);
    out[0] = '[';
    out[out_size + 1] = ']';
    array = json_loadb((const char *)out, out_size + 2, 0, NULL);
    EXPECT_EQ_U64(json_array_size(array), 8);
    for (size_t i = 0; i < 8; i++)
        expect_object(json_array_get(array, i), i, false);
    json_decref(array);
}

/* ---- Encodings ---- */

#define BYTES(literal) literal, sizeof(literal) - 1

struct spelled {
    const char *data;
    size_t size;
    const char *utf8; /* Its `data` as it stands in the line; NULL: base64. */
    const char *json;
};

static const struct spelled spelled[8] = {
    {BYTES(""), "\"\"", NULL},
    {BYTES("{\"a\":\r\n [1e400, 12345678901234567890.10]}"),
     "\"{\\\"a\\\":\\r\\n [1e400, 12345678901234567890.10]}\"",
     "{\"a\":   [1e400, 12345678901234567890.10]}"},
    {BYTES("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\0\x1f\t\x7f\\"),
     "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\\u0000\\u001f\\t\x7f\\\\\"", NULL},
    {BYTES("\"\xC3\xA9\""), "\"\\\"\xC3\xA9\\\"\"", "\"\xC3\xA9\""},
    {BYTES("\"\xC0\xAF\""), NULL, NULL},     /* An overlong slash. */
    {BYTES("\"\xED\xA0\x80\""), NULL, NULL}, /* Half of a pair. */
    {BYTES("1\n2"), "\"1\\n2\"", NULL},      /* Two values. */
    {BYTES("\n-0\n"), "\"\\n-0\\n\"", " -0 "},
};

static void make_spelled(void)
{
    make_records();
    for (size_t i = 0; i < 8; i++)
        records[i].data = ks_view_of(spelled[i].data, spelled[i].size);
}

/* The end of a record: its data, and whether it says that it is in base64 after all. */
static void expect_end(ks_view record, size_t i, const char *data)
{
    char encoded[200];
    char end[300];
    size_t size = ks_base64_encode(records[i].data, encoded);

    if (data == NULL)
        (void)snprintf(end, sizeof(end), ",\"encoding\":\"base64\",\"data\":\"%.*s\"}", (int)size,
                       encoded);
    else
        (void)snprintf(end, sizeof(end), "%s,\"data\":%s}",
                       i == 2 ? "\"aggregated\":true" : "\"attempt\":4", data);
    EXPECT(record.size > strlen(end));
    EXPECT_MEM(record.data + record.size - strlen(end), end, strlen(end));
}

static void expect_lines(enum ks_frame_encoding encoding)
{
    ks_view rest = ks_view_of(out, out_size);

    for (size_t i = 0; i < 8; i++) {
        ks_view line = ks_view_cut(&rest, '\n');
        json_t *object = json_loadb((const char *)line.data, line.size, JSON_ALLOW_NUL, NULL);
        /* 1e400 is more than jansson takes for a number, but a number. */
        EXPECT((object != NULL) == (encoding == KS_ENCODING_UTF8 || i != 1));
        expect_end(line, i, encoding == KS_ENCODING_UTF8 ? spelled[i].utf8 : spelled[i].json);
        json_decref(object);
    }
    EXPECT_EQ_U64(rest.size, 0);
}

TEST(data_is_text_or_a_value_on_one_line_and_else_base64_that_says_so)
{
    make_spelled();
    for (int encoding = KS_ENCODING_UTF8; encoding <= KS_ENCODING_JSON; encoding++) {
        for (size_t room = KS_FILL_MIN; room < KS_FILL_MIN + 300; room++) {
            struct ks_framer framer;
            begin(&framer, KS_FRAME_NDJSON, 8);
            framer.encoding = (enum ks_frame_encoding)encoding;
            EXPECT_EQ_I64(write_all(&framer, room), KS_FRAME_DONE);
            expect_lines(framer.encoding);
        }
    }
}

TEST(the_elements_of_an_array_have_encodings_too)
{
    struct ks_framer framer;

    make_spelled();
    begin(&framer, KS_FRAME_JSON, 1);
    framer.encoding = KS_ENCODING_JSON;
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    expect_end(ks_view_of(out, out_size), 0, NULL);
    records[0] = records[3];
    begin(&framer, KS_FRAME_JSON, 1);
    framer.encoding = KS_ENCODING_JSON;
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    expect_end(ks_view_of(out, out_size), 3, spelled[3].json);
}

/* ---- Limits ---- */

/* Six characters for one byte, and a value that is mostly line breaks. */
TEST(long_data_goes_through_the_smallest_buffer_in_any_encoding)
{
    enum { SIZE = 5 << 20 }; /* As text: 30 MiB of what `out` holds. */
    uint8_t *data = malloc(SIZE);
    struct ks_framer framer;
    json_t *object;

    make_records();
    memset(data, 1, SIZE);
    records[0].data = ks_view_of(data, SIZE);
    begin(&framer, KS_FRAME_NDJSON, 1);
    framer.encoding = KS_ENCODING_UTF8;
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    object = json_loadb((const char *)out, out_size, 0, NULL);
    EXPECT_EQ_U64(json_string_length(json_object_get(object, "data")), SIZE);
    json_decref(object);

    memset(data, '\n', SIZE);
    data[SIZE / 2] = '7';
    begin(&framer, KS_FRAME_NDJSON, 1);
    framer.encoding = KS_ENCODING_JSON;
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    EXPECT(memchr(out, '\n', out_size) == out + out_size - 1);
    object = json_loadb((const char *)out, out_size, 0, NULL);
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "data")), 7);
    json_decref(object);
    free(data);
}

TEST(the_longest_head_fits_the_smallest_buffer_and_ten_mebibytes_go_through_it)
{
    static uint8_t worst[KS_PARTITION_KEY_MAX];
    static uint8_t digits[KS_SEQUENCE_MAX];

    memset(worst, 1, sizeof(worst));
    memset(digits, '7', sizeof(digits));
    make_records();
    records[0] = make_record(10 << 20);
    records[0].partition_key = ks_view_of(worst, sizeof(worst));
    records[0].sequence = ks_view_of(digits, sizeof(digits));
    for (int format = KS_FRAME_NDJSON; format <= KS_FRAME_PROTOBUF; format++) {
        struct ks_framer framer;
        char stream[KS_LETTER_STREAM_MAX + 1];
        char shard[KS_SHARD_ID_MAX + 1];
        char batch[KS_BATCH_ID_MAX + 1];
        struct ks_ack_run run = {3, 9, 100, 1, 1};
        struct ks_ack_stamp stamp;

        memset(stream, 's', KS_LETTER_STREAM_MAX);
        memset(shard, 'n', KS_SHARD_ID_MAX);
        memset(batch, 'b', KS_BATCH_ID_MAX);
        stream[KS_LETTER_STREAM_MAX] = shard[KS_SHARD_ID_MAX] = batch[KS_BATCH_ID_MAX] = '\0';
        ks_framer_init(&framer, (enum ks_frame_format)format,
                       (struct ks_frame_source){record_of, NULL});
        framer.lanes = 64;
        ks_ack_stamp_init(&stamp, &key, 1, 2, &run);
        ks_framer_begin(&framer, &stamp, &(struct ks_frame_names){batch, stream, shard}, &run, 4);
        EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
        EXPECT(out_size > 10 << 20);
    }
}

TEST(a_server_sent_event_is_the_line_of_ndjson_between_its_two_ends)
{
    static const char begins[] = "event: record\ndata: ";
    struct ks_framer framer;
    uint8_t *lines;
    size_t size;
    ks_view rest;
    ks_view events;

    make_records();
    begin(&framer, KS_FRAME_NDJSON, 8);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    lines = malloc(out_size);
    size = out_size;
    memcpy(lines, out, size);
    for (size_t room = KS_FILL_MIN; room < KS_FILL_MIN + 200; room += 7) {
        begin(&framer, KS_FRAME_SSE, 8);
        EXPECT_EQ_I64(write_all(&framer, room), KS_FRAME_DONE);
        rest = ks_view_of(lines, size);
        events = ks_view_of(out, out_size);
        for (size_t i = 0; i < 8; i++) {
            ks_view line = ks_view_cut(&rest, '\n');

            EXPECT_MEM(events.data, begins, sizeof(begins) - 1);
            EXPECT_OK(ks_view_take(&events, sizeof(begins) - 1, &(ks_view){NULL, 0}));
            EXPECT_MEM(events.data, line.data, line.size);
            EXPECT_OK(ks_view_take(&events, line.size, &(ks_view){NULL, 0}));
            EXPECT_MEM(events.data, "\n\n", 2);
            EXPECT_OK(ks_view_take(&events, 2, &(ks_view){NULL, 0}));
        }
        EXPECT_EQ_U64(events.size, 0);
    }
    free(lines);
}

TEST(a_dead_letter_that_is_delivered_again_says_so_in_every_format)
{
    struct ks_framer framer;

    make_records();
    redriven = true;
    for (int format = KS_FRAME_NDJSON; format <= KS_FRAME_ELEMENT_JSON; format++) {
        bool bytes = format == KS_FRAME_PROTOBUF || format == KS_FRAME_ELEMENT;

        begin(&framer, (enum ks_frame_format)format, 1);
        EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
        out[out_size] = '\0';
        if (bytes)
            EXPECT_MEM(out + out_size - 2, "\x68\x01", 2);
        else
            EXPECT_CONTAINS((const char *)out, "\"redriven\":true");
    }
}

/* Lanes 0 and above: JSON says 0, protobuf and the JSON of proto3 leave it out. A redriven record is in no lane. */
TEST(record_of_a_stream_with_lanes_has_the_lane_of_its_key_in_every_format)
{
    static const enum ks_frame_format formats[] = {KS_FRAME_NDJSON, KS_FRAME_SSE, KS_FRAME_PROTOBUF,
                                                   KS_FRAME_ELEMENT_JSON};
    struct ks_framer framer;
    uint32_t lane;
    char member[32];

    make_records();
    lane = ks_key_lane(records[0].partition_key, 64);
    (void)snprintf(member, sizeof(member), "\"lane\":%u,", lane);
    EXPECT(lane > 0 && lane < 64);
    for (size_t i = 0; i < 4; i++) {
        begin(&framer, formats[i], 1);
        framer.lanes = 64;
        EXPECT_EQ_I64(write_all(&framer, 4096), KS_FRAME_DONE);
        if (formats[i] == KS_FRAME_PROTOBUF) {
            ks_pb_event *event =
                kinesis_sidecar__v1__stream_event__unpack(NULL, out_size - 2, out + 2);
            EXPECT(event != NULL && event->record->lane == lane);
            kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
        } else {
            EXPECT(memmem(out, out_size, member, strlen(member)) != NULL);
        }
        begin(&framer, formats[i], 1);
        framer.lanes = 1;
        EXPECT_EQ_I64(write_all(&framer, 4096), KS_FRAME_DONE);
        EXPECT((memmem(out, out_size, "\"lane\":0,", 9) != NULL) ==
               (formats[i] == KS_FRAME_NDJSON || formats[i] == KS_FRAME_SSE));
    }
    redriven = true;
    begin(&framer, KS_FRAME_NDJSON, 1);
    framer.lanes = 64;
    EXPECT_EQ_I64(write_all(&framer, 4096), KS_FRAME_DONE);
    EXPECT(memmem(out, out_size, "lane", 4) == NULL);
    redriven = false;
}

TEST(a_key_that_is_not_unicode_does_not_break_a_reader)
{
    struct ks_framer framer;

    make_records();
    records[0].partition_key = ks_view_of("a\xff\xc3\xa9", 4);
    begin(&framer, KS_FRAME_PROTOBUF, 1);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    /* U+FFFD, as in JSON. */
    records[0].partition_key = KS_VIEW("a\xef\xbf\xbd\xc3\xa9");
    expect_protobuf(1);
}

TEST(a_key_with_a_nul_is_written_as_it_is)
{
    static const uint8_t field[] = {0x42, 4, 0xc3, 0xa9, 0, 'z'};
    struct ks_framer framer;

    make_records();
    records[0].partition_key = ks_view_of(field + 2, 4);
    begin(&framer, KS_FRAME_PROTOBUF, 1);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_DONE);
    EXPECT(memmem(out, out_size, field, sizeof(field)) != NULL);
}

/* The longest key that a source can have, none of it Unicode. */
TEST(a_long_key_that_is_not_unicode_is_written_whole)
{
    static uint8_t bad[KS_PARTITION_KEY_MAX];
    static uint8_t replaced[3 * KS_PARTITION_KEY_MAX];
    struct ks_framer framer;

    memset(bad, 0xff, sizeof(bad));
    for (size_t i = 0; i < sizeof(bad); i++)
        memcpy(replaced + 3 * i, "\xef\xbf\xbd", 3);
    make_records();
    records[0].partition_key = ks_view_of(bad, sizeof(bad));
    begin(&framer, KS_FRAME_PROTOBUF, 1);
    EXPECT_EQ_I64(write_all(&framer, 1 << 16), KS_FRAME_DONE);
    records[0].partition_key = ks_view_of(replaced, sizeof(replaced));
    expect_protobuf(1);
}

TEST(a_record_that_may_not_go_is_told_before_and_in_its_middle)
{
    struct ks_framer framer;
    enum ks_frame_state state;
    uint8_t buffer[KS_FILL_MIN];

    make_records();
    missing = 102;
    begin(&framer, KS_FRAME_NDJSON, 8);
    EXPECT_EQ_I64(write_all(&framer, KS_FILL_MIN), KS_FRAME_MISSING);
    EXPECT_EQ_U64(framer.next, 102);

    missing = UINT64_MAX;
    records[0] = make_record(50000);
    begin(&framer, KS_FRAME_NDJSON, 1);
    EXPECT(ks_framer_fill(&framer, buffer, sizeof(buffer), &state) > 0);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    missing = 100;
    EXPECT_EQ_U64(ks_framer_fill(&framer, buffer, sizeof(buffer), &state), 0);
    EXPECT_EQ_I64(state, KS_FRAME_CUT);
}
