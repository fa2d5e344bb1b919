/* SPDX-License-Identifier: Apache-2.0 */
/* deliveries.h - asks a house for records in every way that there is, and judges them: each message is whole in its
 * format, and a record is the same in all of them.
 */
#ifndef KS_FUZZ_DELIVERIES_H
#define KS_FUZZ_DELIVERIES_H

#include "house.h"

#include "api/ack_id.h"
#include "base/codec.h"
#include "base/digest.h"
#include "kinesis_sidecar/v1/service.pb-c.h"

enum { SEEN_MAX = 128, NAME_BYTES = 600, BATCH_MAX = 20 };

/* A record as it was told first. */
struct seen {
    char name[NAME_BYTES]; /* Shard, sequence number, place in an aggregate. */
    uint32_t data;         /* A checksum. */
    uint32_t partition_key;
    size_t size;
    uint32_t question; /* Number of the last question whose answer had it. */
};

static struct deliveries {
    struct seen seen[SEEN_MAX];
    uint32_t count;
    uint32_t questions;
    uint32_t received;  /* By the last question. */
    char batch_id[600]; /* Of the last record. */
    bool twice;         /* Different records have one name: nothing is compared. */
} deliveries;

/* `known`: `data` is what was put, and not a value made of it. */
static inline void see(const char *shard, const char *sequence, int64_t sub, ks_view key,
                       ks_view data, bool known)
{
    char name[NAME_BYTES];
    struct seen *seen = NULL;

    deliveries.received++;
    assert(ks_view_is_unicode(key) && sub >= 0);
    /* protobuf-c ends a string there. */
    key = ks_view_cut(&key, '\0');
    (void)snprintf(name, sizeof(name), "%s/%s/%lld", shard, sequence, (long long)sub);
    for (uint32_t at = 0; at < deliveries.count && seen == NULL; at++)
        if (strcmp(deliveries.seen[at].name, name) == 0)
            seen = &deliveries.seen[at];
    /* No stream has two of a name; an answer that is made up may. */
    deliveries.twice = deliveries.twice || (seen != NULL && seen->question == deliveries.questions);
    if (seen != NULL && !deliveries.twice) {
        const bool same = seen->partition_key == ks_crc32(key) &&
                          (!known || (seen->size == data.size && seen->data == ks_crc32(data)));

        if (!same)
            (void)fprintf(stderr, "another %s than before:\n%s\n", name, answer.body);
        assert(same);
    } else if (seen == NULL && known && deliveries.count < SEEN_MAX) {
        seen = &deliveries.seen[deliveries.count++];
        *seen = (struct seen){
            .data = ks_crc32(data), .partition_key = ks_crc32(key), .size = data.size};
        memcpy(seen->name, name, sizeof(name));
    }
    if (seen != NULL)
        seen->question = deliveries.questions;
}

/* ---- JSON ---- */

static inline const json_t *member(const json_t *object, const char *name, const char *proto3)
{
    const json_t *const value = json_object_get(object, name);

    return value != NULL ? value : json_object_get(object, proto3);
}

static inline ks_view text_of(const json_t *text)
{
    if (!json_is_string(text))
        return KS_VIEW("");
    return ks_view_of(json_string_value(text), json_string_length(text));
}

static inline int64_t number_of(const json_t *number)
{
    return json_is_string(number) ? atoll(json_string_value(number)) : json_integer_value(number);
}

static inline void see_json(const json_t *record, const char *encoding)
{
    const json_t *const own = json_object_get(record, "encoding");
    const ks_view text = text_of(json_object_get(record, "data"));
    const ks_view batch = text_of(member(record, "batch_id", "batchId"));
    const char *const spelled = json_is_string(own) ? json_string_value(own) : encoding;
    uint8_t *const bytes = malloc(ks_base64_decoded_max(text.size) + 32);
    ks_view data = text;

    assert(json_is_object(record) && bytes != NULL);
    assert(text_of(member(record, "ack_id", "ackId")).size == KS_ACK_ID_SIZE);
    if (strcmp(spelled, "base64") == 0) {
        const ks_err err = ks_base64_decode(text, bytes, &data.size);
        assert(ks_ok(err));
        data.data = bytes;
    }
    see(json_string_value(member(record, "shard_id", "shardId")),
        json_string_value(member(record, "sequence_number", "sequenceNumber")),
        number_of(member(record, "sub_sequence_number", "subSequenceNumber")),
        text_of(member(record, "partition_key", "partitionKey")), data,
        strcmp(spelled, "json") != 0);
    if (batch.size > 0)
        (void)ks_view_copy_text(batch, deliveries.batch_id, sizeof(deliveries.batch_id));
    free(bytes);
}

static inline void see_batch_json(const char *encoding)
{
    json_t *const batch = read_json(answer.body, answer.body_size);
    const json_t *const records = json_object_get(batch, "records");
    const ks_view id = text_of(member(batch, "batch_id", "batchId"));

    (void)ks_view_copy_text(id, deliveries.batch_id, sizeof(deliveries.batch_id));
    for (size_t at = 0; at < json_array_size(records); at++)
        see_json(json_array_get(records, at), encoding);
    json_decref(batch);
}

/* Lines; of server-sent events those with data. The last one may be cut: it is not ended. */
static inline void see_lines(const char *encoding, bool events)
{
    ks_view rest = ks_view_of(answer.body, answer.body_size);

    while (rest.size != 0 && memchr(rest.data, '\n', rest.size) != NULL) {
        ks_view line = ks_view_cut(&rest, '\n');
        json_t *event;

        if (events && !ks_view_starts(line, KS_VIEW("data: "))) {
            assert(
                line.size == 0 || line.data[0] == ':' || ks_view_starts(line, KS_VIEW("event: ")) ||
                ks_view_starts(line, KS_VIEW("id: ")) || ks_view_starts(line, KS_VIEW("retry: ")));
            continue;
        }
        if (events)
            line = ks_view_of(line.data + 6, line.size - 6);
        event = read_json((const char *)line.data, line.size);
        if (ks_view_equal(text_of(json_object_get(event, "type")), KS_VIEW("record")))
            see_json(event, encoding);
        json_decref(event);
    }
}

/* ---- Protobuf ---- */

static inline void see_message(const KinesisSidecar__V1__Record *record, const char *batch_id)
{
    assert(strlen(record->ack_id) == KS_ACK_ID_SIZE);
    see(record->shard_id, record->sequence_number, record->sub_sequence_number,
        ks_view_text(record->partition_key), ks_view_of(record->data.data, record->data.len), true);
    (void)snprintf(deliveries.batch_id, sizeof(deliveries.batch_id), "%s", batch_id);
}

static inline void see_batch(void)
{
    KinesisSidecar__V1__PullResponse *const batch =
        (KinesisSidecar__V1__PullResponse *)read_message(
            &kinesis_sidecar__v1__pull_response__descriptor, answer.body, answer.body_size);

    for (size_t at = 0; at < batch->n_records; at++)
        see_message(batch->records[at], batch->batch_id);
    kinesis_sidecar__v1__pull_response__free_unpacked(batch, NULL);
}

/* Events behind their lengths. */
static inline void see_events(void)
{
    const uint8_t *at = (const uint8_t *)answer.body;
    const uint8_t *const end = at + answer.body_size;

    while (at < end) {
        KinesisSidecar__V1__StreamEvent *event;
        size_t size = 0;
        int shift = 0;

        while (at < end && *at >= 0x80 && shift < 28) {
            size |= (size_t)(*at++ & 0x7F) << shift;
            shift += 7;
        }
        if (at == end)
            return;
        size |= (size_t)*at++ << shift;
        if (size > (size_t)(end - at))
            return;
        event = (KinesisSidecar__V1__StreamEvent *)read_message(
            &kinesis_sidecar__v1__stream_event__descriptor, at, size);
        if (event->event_case == KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_RECORD)
            see_message(event->record, event->record->batch_id);
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
        at += size;
    }
}

/* ---- The ways ---- */

static const struct way {
    const char *encoding;
    const char *accept; /* Of a stream; NULL: a pull. */
    bool call;          /* Of the service. */
} ways[] = {
    {"base64", NULL, false},
    {"utf8", "application/x-ndjson", false},
    {"json", "application/x-ndjson", false},
    {"protobuf", NULL, true},
    {"base64", "text/event-stream", false},
    {"protobuf", "application/x-protobuf", false},
    {"utf8", NULL, false},
    {"base64", "application/x-ndjson", false},
    {"json", NULL, false},
    {"base64", NULL, true},
    {"json", "text/event-stream", false},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static inline void pull(const struct way *way)
{
    char target[160];

    if (way->call && strcmp(way->encoding, "protobuf") == 0) {
        /* max_records 20, wait_ms 300. */
        call_house("Consumer/Pull", "\x10\x14\x20\xAC\x02");
        if (!check_problem())
            see_batch();
        return;
    }
    (void)snprintf(target, sizeof(target), "/v1/records?wait_ms=300&max_records=%d&encoding=%s",
                   BATCH_MAX, way->encoding);
    if (way->call)
        ask(DOOR_API, "POST", "/kinesis_sidecar.v1.Consumer/Pull",
            "Content-Type: application/json\r\n", "{\"waitMs\":300,\"maxRecords\":20}");
    else
        ask(DOOR_API, "GET", target, "", NULL);
    if (!check_problem())
        see_batch_json(way->encoding);
}

static inline void stream(const struct way *way)
{
    const bool binary = strcmp(way->encoding, "protobuf") == 0;
    char target[160];
    char accept[80];

    (void)snprintf(target, sizeof(target), "/v1/records/stream?max_in_flight=%d%s%s", BATCH_MAX,
                   binary ? "" : "&encoding=", binary ? "" : way->encoding);
    (void)snprintf(accept, sizeof(accept), "Accept: %s\r\n", way->accept);
    listen_to(target, accept);
    if (check_problem())
        return;
    if (binary)
        see_events();
    else
        see_lines(way->encoding, strcmp(way->accept, "text/event-stream") == 0);
}

static inline void begin_deliveries(void)
{
    deliveries = (struct deliveries){.count = 0};
}

/* Asks in one way; what came is `received`, and not settled. A stream gives its records back: it ends. */
static inline void receive(const struct way *way)
{
    deliveries.questions++;
    deliveries.received = 0;
    deliveries.batch_id[0] = '\0';
    if (way->accept == NULL)
        pull(way);
    else
        stream(way);
}

/* "ack" or "nack": the last batch that was pulled. */
static inline void settle(const char *how, const char *more)
{
    char target[700];

    if (deliveries.batch_id[0] == '\0')
        return;
    (void)snprintf(target, sizeof(target), "/v1/records/%s?batch_id=%s%s", how, deliveries.batch_id,
                   more);
    ask(DOOR_API, "POST", target, "", NULL);
    if (!check_problem())
        json_decref(read_json(answer.body, answer.body_size));
}

#endif
