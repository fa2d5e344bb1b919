/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/reading.h"

#include "adapters/kinesis/request.h"
#include "base/digest.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

ks_err ks_reading_open(struct ks_reading *reading, const struct ks_reading_options *options,
                       struct ks_detail *detail)
{
    if (!ks_is_stream(options->stream))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "the stream is a name of 1 to %d characters, or its ARN",
                              KS_STREAM_NAME_MAX);
    reading->port.vtable = options->vtable;
    reading->loop = options->loop;
    reading->client = options->client;
    ks_wire_init(&reading->wire, options->protocol);
    ks_prng_init(&reading->prng, ks_random_u64());
    ks_link_init(&reading->readers);
    (void)snprintf(reading->stream, sizeof(reading->stream), "%s", options->stream);
    return ks_control_new(reading->loop, reading->client, reading->stream, options->page_size,
                          &reading->control);
}

void ks_reading_close(struct ks_reading *reading)
{
    assert(reading->control == NULL || ks_list_empty(&reading->readers));
    ks_control_free(reading->control);
    reading->control = NULL;
}

void ks_reading_describe(struct ks_stream_source *port,
                         void (*answered)(void *arg, const struct ks_describe_answer *answer),
                         void *arg)
{
    ks_control_describe(ks_reading_of(port)->control, answered, arg);
}

void ks_reading_list(struct ks_stream_source *port, int64_t since_ms,
                     void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    ks_control_list(ks_reading_of(port)->control, since_ms, answered, arg);
}

int64_t ks_reading_now_ms(struct ks_stream_source *port)
{
    return ks_aws_client_now_ms(ks_reading_of(port)->client);
}

int64_t ks_reading_retention_ms(struct ks_stream_source *port)
{
    return ks_control_retention_ms(ks_reading_of(port)->control);
}

enum ks_store_state ks_reading_state(const struct ks_stream_source *port,
                                     struct ks_detail *ret_detail)
{
    const struct ks_reading *reading = (const struct ks_reading *)(const void *)port;

    return ks_control_state(reading->control, ret_detail);
}

void ks_reading_join(struct ks_reading *reading, struct ks_link *link, const char *shard,
                     const struct ks_position *from, struct ks_place *ret_place, char *ret_shard)
{
    ks_place_init(ret_place, from, ks_aws_client_now_ms(reading->client));
    /* Before its birth the stream had nothing that could have expired. */
    if (ret_place->read_ms > 0 && ret_place->read_ms < ks_control_created_ms(reading->control))
        ret_place->read_ms = ks_control_created_ms(reading->control);
    ret_place->opened_at = ks_loop_now(reading->loop);
    (void)snprintf(ret_shard, KS_SHARD_ID_MAX + 1, "%s", shard);
    ks_list_append(&reading->readers, link);
}

struct ks_position ks_reading_ask(struct ks_reading *reading, struct ks_place *place)
{
    ks_place_date(place, ks_aws_client_now_ms(reading->client), ks_loop_now(reading->loop));
    return ks_place_asked(place);
}

struct ks_place_stream ks_reading_stream(struct ks_reading *reading)
{
    return (struct ks_place_stream){.now_ms = ks_aws_client_now_ms(reading->client),
                                    .retention_ms = ks_control_retention_ms(reading->control)};
}

void ks_reading_leave(struct ks_reading *reading, struct ks_link *link)
{
    ks_list_remove(link);
    if (ks_list_empty(&reading->readers))
        ks_control_unread(reading->control);
}

void ks_reading_hear(struct ks_reading *reading, ks_err err, const struct ks_detail *detail)
{
    bool service = ks_ok(err) || ks_err_class(err) == KS_CLASS_RETRY ||
                   ks_err_is(err, KS_ERR_DENIED) || ks_err_is(err, KS_ERR_NO_CREDENTIALS);

    if (service)
        ks_control_heard(reading->control, err, detail);
}

static void log_change(const struct ks_reading *reading, enum ks_wire_change change)
{
    const char *why = NULL;

    switch (change) {
    case KS_WIRE_UNCHANGED: return;
    case KS_WIRE_NOT_UNDERSTOOD: why = "the server does not understand CBOR"; break;
    case KS_WIRE_NOT_SPOKEN: why = "the server answers CBOR with JSON"; break;
    case KS_WIRE_NOT_READABLE: why = "the server's CBOR cannot be read"; break;
    case KS_WIRE_CBOR_AGAIN:
        ks_info("stream %s: the server answers in CBOR; asking in CBOR", reading->stream);
        return;
    }
    ks_info("stream %s: %s; asking in JSON, and in CBOR again after %d s", reading->stream, why,
            KS_WIRE_JSON_MS / 1000);
}

void ks_reading_begin(struct ks_reading *reading, struct ks_wire_request *request)
{
    ks_wire_begin(&reading->wire, request, ks_loop_now(reading->loop));
}

bool ks_reading_repeats(struct ks_reading *reading, struct ks_wire_request *request,
                        const struct ks_failure *failure, ks_view type)
{
    ks_instant now = ks_loop_now(reading->loop);
    enum ks_wire_change change;
    bool repeats = ks_wire_failed(&reading->wire, request, now, failure, type, &change);

    log_change(reading, change);
    return repeats;
}

void ks_reading_spoke(struct ks_reading *reading, struct ks_wire_request *request, bool in_cbor)
{
    ks_instant now = ks_loop_now(reading->loop);

    log_change(reading, ks_wire_answered(&reading->wire, request, now, in_cbor));
}

bool ks_reading_repeats_unreadable(struct ks_reading *reading,
                                   const struct ks_wire_request *request, bool in_cbor)
{
    if (!in_cbor || !request->cbor || reading->wire.mode != KS_WIRE_AUTO)
        return false;
    log_change(reading, ks_wire_unreadable(&reading->wire, ks_loop_now(reading->loop)));
    return true;
}
