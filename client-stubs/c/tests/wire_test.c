/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the stream: golden frames, and hostile bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "event.h"
#include "reader.h"

#define GOLDEN PROTO_FOLDER "/golden/"

enum { FILE_BYTES_MAX = 4096, MUTATIONS = 200000 };

static size_t read_golden(const char *name, uint8_t bytes[FILE_BYTES_MAX])
{
    char path[512];
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "%s%s.bin", GOLDEN, name);
    file = fopen(path, "rb");
    EXPECT(file != NULL);
    size = fread(bytes, 1, FILE_BYTES_MAX, file);
    EXPECT(size > 0 && feof(file));
    (void)fclose(file);
    return size;
}

/* The only frame of the bytes. */
static struct ks_delivery *frame_of(const uint8_t *bytes, size_t size)
{
    struct ks_reader reader = {0};
    struct ks_delivery *frame;
    const uint8_t *at = bytes;

    EXPECT_EQ(ks_reader_next(&reader, &at, bytes + size, &frame), KS_READ_FRAME);
    EXPECT(at == bytes + size);
    return frame;
}

static struct ks_delivery *golden_record(const char *name)
{
    uint8_t bytes[FILE_BYTES_MAX];
    struct ks_delivery *frame = frame_of(bytes, read_golden(name, bytes));
    struct ks_field field;

    EXPECT(ks_event_find(frame, &field));
    EXPECT_EQ(field.number, KS_EVENT_RECORD);
    EXPECT(ks_delivery_read(frame, &field));
    return frame;
}

static struct ks_delivery *golden_event(const char *name, ks_event *event)
{
    uint8_t bytes[FILE_BYTES_MAX];
    struct ks_delivery *frame = frame_of(bytes, read_golden(name, bytes));
    struct ks_field field;

    EXPECT(ks_event_find(frame, &field));
    EXPECT(ks_event_read(frame, &field, event));
    EXPECT_STR(event->type, name);
    return frame;
}

TEST(golden_records_are_read)
{
    static const char *const NAMES[] = {"record", "record_part", "record_redriven"};

    for (size_t i = 0; i < 3; i++) {
        struct ks_delivery *delivery = golden_record(NAMES[i]);
        const ks_record *record = &delivery->record;
        EXPECT(strncmp(record->shard_id, "shardId-", 8) == 0);
        EXPECT(strspn(record->sequence_number, "0123456789") == strlen(record->sequence_number));
        EXPECT_EQ(strlen(record->sequence_number), delivery->sequence_number_size);
        EXPECT_EQ(strlen(record->partition_key), record->partition_key_size);
        EXPECT(record->stream[0] != '\0' && delivery->ack_id[0] != '\0');
        EXPECT(record->attempt >= 1 && record->arrived_at_ms > 0);
        EXPECT(record->data[record->data_size] == '\0');
        EXPECT_EQ(record->redriven, i == 2);
        ks_delivery_release(delivery);
    }
}

TEST(golden_events_are_read)
{
    static const char *const NAMES[] = {"session",         "heartbeat",  "draining",
                                        "lease_returning", "lease_lost", "ended",
                                        "record_too_large"};
    ks_event events[7];
    struct ks_delivery *frames[7];

    for (size_t i = 0; i < 7; i++)
        frames[i] = golden_event(NAMES[i], &events[i]);
    EXPECT(events[0].max_in_flight > 0 && events[0].max_in_flight_bytes > 0);
    EXPECT(events[0].ack_deadline_ms > 0 && events[0].heartbeat_ms > 0);
    EXPECT(events[0].session[0] != '\0' && events[0].boot_id[0] != '\0');
    EXPECT(events[1].credit > 0 || events[1].in_flight > 0);
    EXPECT(events[2].deadline_ms > 0 && events[3].deadline_ms > 0);
    EXPECT(events[3].shard_id[0] != '\0' && events[4].shard_id[0] != '\0');
    EXPECT(events[5].reason[0] != '\0');
    EXPECT(events[6].bytes > 0 && events[6].partition_key[0] != '\0');
    EXPECT(events[6].sequence_number[0] != '\0');
    for (size_t i = 0; i < 7; i++)
        ks_delivery_release(frames[i]);
}

TEST(frame_in_parts_is_read)
{
    uint8_t bytes[FILE_BYTES_MAX];
    size_t size = read_golden("record", bytes);

    for (size_t step = 1; step <= size; step++) {
        struct ks_reader reader = {0};
        struct ks_delivery *frame = NULL;
        for (size_t begin = 0; begin < size; begin += step) {
            const uint8_t *at = bytes + begin;
            const uint8_t *end = bytes + (begin + step < size ? begin + step : size);
            enum ks_read read = ks_reader_next(&reader, &at, end, &frame);
            EXPECT_EQ(read, end == bytes + size ? KS_READ_FRAME : KS_READ_MORE);
        }
        EXPECT(memcmp(frame->frame, bytes + size - frame->frame_size, frame->frame_size) == 0);
        ks_delivery_release(frame);
    }
}

TEST(frame_that_is_not_whole_is_dropped)
{
    uint8_t bytes[FILE_BYTES_MAX];
    size_t size = read_golden("record", bytes);
    struct ks_reader reader = {0};
    struct ks_delivery *frame;
    const uint8_t *at = bytes;

    EXPECT_EQ(ks_reader_next(&reader, &at, bytes + size - 1, &frame), KS_READ_MORE);
    ks_reader_reset(&reader);
    EXPECT(reader.frame == NULL);
}

TEST(length_beyond_32_mib_is_refused)
{
    static const uint8_t LENGTHS[][6] = {{0x81, 0x80, 0x80, 0x10},
                                         {0xFF, 0xFF, 0xFF, 0xFF, 0x0F},
                                         {0x80, 0x80, 0x80, 0x80, 0x80, 0x01}};

    for (size_t i = 0; i < 3; i++) {
        struct ks_reader reader = {0};
        struct ks_delivery *frame;
        const uint8_t *at = LENGTHS[i];
        EXPECT_EQ(ks_reader_next(&reader, &at, LENGTHS[i] + 6, &frame), KS_READ_TOO_LARGE);
    }
}

static bool is_malformed(const char *bytes, size_t size)
{
    struct ks_message message = ks_message_of((const uint8_t *)bytes, size);
    struct ks_field field;

    while (ks_message_next(&message, &field))
        continue;
    return message.is_malformed;
}

TEST(malformed_messages_are_refused)
{
    EXPECT(!is_malformed("", 0));
    EXPECT(!is_malformed("\x08\x01\x12\x01\x61", 5));
    EXPECT(!is_malformed("\x09"
                         "12345678"
                         "\x0d"
                         "1234",
                         14));
    EXPECT(is_malformed("\x08", 1));                                              /* No value. */
    EXPECT(is_malformed("\x12\x02\x61", 3));                                      /* Too short. */
    EXPECT(is_malformed("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x61", 12)); /* 2^64 - 1. */
    EXPECT(is_malformed("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12)); /* 11 bytes. */
    EXPECT(is_malformed("\x00\x00", 2));                                          /* Field 0. */
    EXPECT(is_malformed("\x0b\x01", 2));                                          /* A group. */
    EXPECT(is_malformed("\x09"
                        "1234567",
                        8));
    EXPECT(is_malformed("\x0d"
                        "123",
                        4));
}

TEST(record_without_ids_or_with_a_wrong_lane_is_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
    } RECORDS[] = {
        {"\x0a\x01\x61", 3}, {"\x12\x01\x62", 3}, {"\x0a\x01\x61\x12\x01\x62\x70\x40", 8}};

    for (size_t i = 0; i < 3; i++) {
        struct ks_delivery *frame = ks_delivery_new(RECORDS[i].size);
        struct ks_field field = {.data = frame->frame, .size = RECORDS[i].size};
        memcpy(frame->frame, RECORDS[i].bytes, RECORDS[i].size);
        EXPECT(!ks_delivery_read(frame, &field));
        ks_delivery_release(frame);
    }
}

TEST(last_field_of_a_message_counts)
{
    static const char BYTES[] = "\x0a\x01\x61\x12\x01\x62\x2a\x01\x63\x0a\x02\x64\x65\x12\x01\x66";
    struct ks_delivery *frame = ks_delivery_new(sizeof(BYTES) - 1);
    struct ks_field field = {.data = frame->frame, .size = sizeof(BYTES) - 1};

    memcpy(frame->frame, BYTES, sizeof(BYTES) - 1);
    EXPECT(ks_delivery_read(frame, &field));
    EXPECT_STR(frame->ack_id, "de");
    EXPECT_STR(frame->batch_id, "f");
    ks_delivery_release(frame);
}

TEST(written_message_is_read)
{
    struct ks_buffer buffer = {0};
    size_t begin = ks_wire_begin(&buffer, 2);
    struct ks_message message;
    struct ks_field field;
    char text[300];

    memset(text, 'x', sizeof(text));
    ks_wire_add_number(&buffer, 3, UINT64_MAX);
    ks_wire_add_number(&buffer, 4, 0);
    ks_wire_add_bytes(&buffer, 5, text, sizeof(text));
    ks_wire_end(&buffer, begin);
    message = ks_message_of(buffer.data, buffer.size);
    EXPECT(ks_message_next(&message, &field) && field.number == 2);
    EXPECT(!ks_message_next(&message, &(struct ks_field){0}) && !message.is_malformed);
    message = ks_message_of(field.data, field.size);
    EXPECT(ks_message_next(&message, &field) && field.number == 3 && field.value == UINT64_MAX);
    EXPECT(ks_message_next(&message, &field) && field.number == 5 && field.size == 300);
    EXPECT(!ks_message_next(&message, &field) && !message.is_malformed);
    ks_buffer_free(&buffer);
}

/* ---- Fuzzing ---- */

/* Numbers by a seed. */
static uint64_t next_chance(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

static void mutate(uint8_t *bytes, size_t *size, uint64_t *chance)
{
    for (uint64_t count = next_chance(chance) % 4; count > 0; count--) {
        size_t at = next_chance(chance) % *size;
        switch (next_chance(chance) % 4) {
        case 0: bytes[at] = (uint8_t)next_chance(chance); break;
        case 1: bytes[at] ^= (uint8_t)(1U << next_chance(chance) % 8); break;
        case 2: bytes[at] = next_chance(chance) % 2 == 0 ? 0xFF : 0x80; break;
        default: *size = at + 1; break;
        }
    }
}

/* Touches every byte that the record names. */
static size_t use_record(const ks_record *record)
{
    size_t sum = strlen(record->partition_key) + strlen(record->stream) + strlen(record->shard_id) +
                 strlen(record->sequence_number);

    for (size_t i = 0; i <= record->data_size; i++)
        sum += record->data[i];
    return sum;
}

/* Reads all frames of the bytes, as the stream does. Returns false at the first one that is
 * refused. */
static bool use_bytes(const uint8_t *bytes, size_t size, size_t *sum)
{
    struct ks_reader reader = {0};
    const uint8_t *at = bytes;
    struct ks_delivery *frame;
    struct ks_field field;
    uint64_t barrier;
    ks_event event;
    bool is_valid = true;

    while (is_valid && ks_reader_next(&reader, &at, bytes + size, &frame) == KS_READ_FRAME) {
        is_valid = ks_event_find(frame, &field);
        if (is_valid && field.number == KS_EVENT_RECORD) {
            is_valid = ks_delivery_read(frame, &field);
            *sum += is_valid ? use_record(&frame->record) : 0;
        } else if (is_valid && field.number == KS_EVENT_BARRIER) {
            is_valid = ks_event_read_barrier(&field, &barrier);
        } else if (is_valid) {
            is_valid = ks_event_read(frame, &field, &event);
            *sum += strlen(event.reason) + strlen(event.shard_id) + strlen(event.session) +
                    strlen(event.partition_key) + strlen(event.sequence_number);
        }
        ks_delivery_release(frame);
    }
    ks_reader_reset(&reader);
    return is_valid;
}

TEST(mutated_frames_are_read_or_refused)
{
    static const char *const NAMES[] = {"record",          "record_redriven", "session",
                                        "heartbeat",       "ended",           "record_too_large",
                                        "lease_returning", "draining"};
    const char *seed = getenv("SEED");
    uint64_t chance = seed == NULL ? 1 : strtoull(seed, NULL, 10);
    uint8_t golden[8][FILE_BYTES_MAX];
    size_t sizes[8], sum = 0, valid = 0;

    for (size_t i = 0; i < 8; i++)
        sizes[i] = read_golden(NAMES[i], golden[i]);
    for (int i = 0; i < MUTATIONS; i++) {
        uint8_t bytes[2 * FILE_BYTES_MAX];
        size_t first = next_chance(&chance) % 8, second = next_chance(&chance) % 8;
        size_t size = sizes[first] + sizes[second];
        memcpy(bytes, golden[first], sizes[first]);
        memcpy(bytes + sizes[first], golden[second], sizes[second]);
        mutate(bytes, &size, &chance);
        valid += use_bytes(bytes, size, &sum);
    }
    EXPECT(sum > 0 && valid > MUTATIONS / 10 && valid < MUTATIONS);
}
