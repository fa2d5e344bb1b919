/* SPDX-License-Identifier: Apache-2.0 */
#include "api/open_request.h"

#include "api/records.h"
#include "ports/share.h"

/* What a session has that asks for nothing. */
enum {
    IN_FLIGHT = 1000,
    IN_FLIGHT_BYTES = 16 << 20,
    ACK_DEADLINE_MS = 60000,
    HEARTBEAT_MS = 10000
};

static bool query_ordering(struct ks_exchange *exchange, ks_pb_open_request *request)
{
    static const struct {
        const char *word;
        ks_pb_ordering ordering;
    } orderings[] = {
        {"shard", KINESIS_SIDECAR__V1__ORDERING__ORDERING_SHARD},
        {"key", KINESIS_SIDECAR__V1__ORDERING__ORDERING_KEY},
        {"none", KINESIS_SIDECAR__V1__ORDERING__ORDERING_NONE},
    };
    ks_view given = KS_VIEW("shard");
    uint64_t lanes;

    (void)ks_request_param(&exchange->request, "ordering", &given);
    for (size_t i = 0; i < sizeof(orderings) / sizeof(orderings[0]); i++)
        if (ks_view_equal(given, ks_view_text(orderings[i].word)))
            request->ordering = orderings[i].ordering;
    if (request->ordering == KINESIS_SIDECAR__V1__ORDERING__ORDERING_UNSPECIFIED) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "ordering must be shard, key or none");
        return false;
    }
    if (!ks_request_number(exchange, "lanes", 1, KS_LANES_MAX, 0, &lanes))
        return false;
    request->lanes = (uint32_t)lanes;
    return true;
}

/* The request of a query: its members as they would stand in a message. */
bool ks_open_request_query(struct ks_exchange *exchange, ks_pb_open_request *request)
{
    uint64_t in_flight;
    uint64_t deadline_ms;
    uint64_t heartbeat_ms;
    uint64_t message_bytes;

    if (!query_ordering(exchange, request))
        return false;
    if (!ks_request_number(exchange, "max_in_flight", 1, KS_IN_FLIGHT_MAX, IN_FLIGHT, &in_flight) ||
        !ks_request_number(exchange, "max_in_flight_bytes", 1, KS_IN_FLIGHT_BYTES_MAX,
                           IN_FLIGHT_BYTES, &request->max_in_flight_bytes) ||
        !ks_request_number(exchange, "max_message_bytes", KS_MESSAGE_EXTRA_BYTES + 1, UINT32_MAX, 0,
                           &message_bytes) ||
        !ks_request_number(exchange, "ack_deadline_ms", KS_ACK_DEADLINE_MS_MIN,
                           KS_ACK_DEADLINE_MS_MAX, ACK_DEADLINE_MS, &deadline_ms) ||
        !ks_request_number(exchange, "heartbeat_ms", KS_HEARTBEAT_MS_MIN, KS_HEARTBEAT_MS_MAX,
                           HEARTBEAT_MS, &heartbeat_ms))
        return false;
    request->max_in_flight = (uint32_t)in_flight;
    request->max_message_bytes = message_bytes;
    request->ack_deadline_ms = (int64_t)deadline_ms;
    request->heartbeat_ms = (int64_t)heartbeat_ms;
    return true;
}

/* The parameters of a request that say which records the session gets; empty: not given. */
struct selection {
    ks_view share;
    ks_view salt;
    ks_view filter;
};

/* An empty text would select all records: a name without a value is a mistake. */
static bool query_text(struct ks_exchange *exchange, const char *name, ks_view *ret_text)
{
    *ret_text = KS_VIEW("");
    if (!ks_request_param(&exchange->request, name, ret_text) || ret_text->size > 0)
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "%s has no value", name);
    return false;
}

static bool query_selection(struct ks_exchange *exchange, struct selection *ret_selection)
{
    ret_selection->salt = KS_VIEW("");
    (void)ks_request_param(&exchange->request, "salt", &ret_selection->salt);
    return query_text(exchange, "share", &ret_selection->share) &&
           query_text(exchange, "filter", &ret_selection->filter);
}

bool ks_open_request_query_texts(struct ks_exchange *exchange, struct ks_arena *arena,
                                 ks_pb_open_request *request)
{
    struct selection selection;

    if (!query_selection(exchange, &selection))
        return false;
    request->share = ks_arena_text(arena, selection.share);
    request->salt = ks_arena_text(arena, selection.salt);
    request->filter = ks_arena_text(arena, selection.filter);
    if (request->share != NULL && request->salt != NULL && request->filter != NULL)
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    return false;
}

/* Checks the form of each. The switchboard checks the rest: share and filter must agree with other sessions. False: the
 * exchange was answered with a problem. */
static bool read_selection(struct ks_exchange *exchange, const struct selection *selection,
                           struct ks_session_request *request)
{
    const ks_view share = selection->share;

    request->filter = selection->filter;
    if (share.size == 0 && selection->salt.size > 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "salt goes with share");
        return false;
    }
    request->salt = selection->salt;
    if (share.size == 0 || ks_ok(ks_share_parse(share, &request->share)))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "share must be a decimal above 0 and below 1 with at most 6 digits, "
                        "like 0.05");
    return false;
}

static bool read_ordering(struct ks_exchange *exchange, const ks_pb_open_request *message,
                          struct ks_session_request *request)
{
    uint64_t lanes;

    request->ordering = KS_ORDER_BY_SHARD;
    if (message->ordering == KINESIS_SIDECAR__V1__ORDERING__ORDERING_KEY)
        request->ordering = KS_ORDER_BY_KEY;
    if (message->ordering == KINESIS_SIDECAR__V1__ORDERING__ORDERING_NONE)
        request->ordering = KS_ORDER_NONE;
    if (request->ordering != KS_ORDER_BY_KEY && message->lanes > 1) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "lanes goes with ordering=key");
        return false;
    }
    if (!ks_message_number(exchange, "lanes", message->lanes, 1, KS_LANES_MAX, KS_LANES_DEFAULT,
                           &lanes))
        return false;
    request->lanes = (uint32_t)lanes;
    return true;
}

/* The same of a message. */
static bool read_numbers(struct ks_exchange *exchange, const ks_pb_open_request *message,
                         struct ks_session_request *request, ks_span *ret_heartbeat)
{
    uint64_t in_flight;
    uint64_t deadline_ms;
    uint64_t heartbeat_ms;
    uint64_t message_bytes = 0;

    if (message->max_message_bytes != 0 &&
        !ks_message_number(exchange, "max_message_bytes", message->max_message_bytes,
                           KS_MESSAGE_EXTRA_BYTES + 1, UINT32_MAX, 0, &message_bytes))
        return false;
    if (!read_ordering(exchange, message, request) ||
        !ks_message_number(exchange, "max_in_flight", message->max_in_flight, 1, KS_IN_FLIGHT_MAX,
                           IN_FLIGHT, &in_flight) ||
        !ks_message_number(exchange, "max_in_flight_bytes", message->max_in_flight_bytes, 1,
                           KS_IN_FLIGHT_BYTES_MAX, IN_FLIGHT_BYTES,
                           &request->max_in_flight_bytes) ||
        !ks_message_number(exchange, "ack_deadline_ms", (uint64_t)message->ack_deadline_ms,
                           KS_ACK_DEADLINE_MS_MIN, KS_ACK_DEADLINE_MS_MAX, ACK_DEADLINE_MS,
                           &deadline_ms) ||
        !ks_message_number(exchange, "heartbeat_ms", (uint64_t)message->heartbeat_ms,
                           KS_HEARTBEAT_MS_MIN, KS_HEARTBEAT_MS_MAX, HEARTBEAT_MS, &heartbeat_ms))
        return false;
    request->max_in_flight = (uint32_t)in_flight;
    request->max_message_bytes = (uint32_t)message_bytes;
    request->explicit_credit = message->explicit_credit;
    request->ack_deadline = ks_span_ms((int64_t)deadline_ms);
    request->grace = ks_span_ms(KS_GRACE_MS);
    request->linger = ks_span_ms(KS_LINGER_MS);
    *ret_heartbeat = ks_span_ms((int64_t)heartbeat_ms);
    return true;
}

static bool read_client_id(struct ks_exchange *exchange, const ks_pb_open_request *message,
                           struct ks_session_request *request)
{
    request->client_id = ks_view_text(message->client_id);
    if (!ks_view_equal(request->client_id, KS_VIEW(KS_DEFAULT_SESSION)))
        return true;
    /* No disconnect ends that one; a stream that took it over would. */
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "client_id %s is the session of those who poll without a name",
                        KS_DEFAULT_SESSION);
    return false;
}

static bool read_shards(struct ks_exchange *exchange, const ks_pb_open_request *message,
                        ks_view ids[KS_SESSION_SHARDS_MAX], struct ks_session_request *request)
{
    request->shards = ids;
    for (size_t i = 0; i < message->n_shards; i++) {
        if (request->shard_count == KS_SESSION_SHARDS_MAX) {
            ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                                "shards may name %d shards at most", KS_SESSION_SHARDS_MAX);
            return false;
        }
        ids[request->shard_count++] = ks_view_text(message->shards[i]);
    }
    return true;
}

bool ks_open_request_read(struct ks_exchange *exchange, const ks_pb_open_request *message,
                          ks_view ids[KS_SESSION_SHARDS_MAX],
                          struct ks_session_request *ret_request, ks_span *ret_heartbeat)
{
    const struct selection selection = {.share = ks_view_text(message->share),
                                        .salt = ks_view_text(message->salt),
                                        .filter = ks_view_text(message->filter)};

    *ret_request = (struct ks_session_request){.client_id = KS_VIEW("")};
    return read_numbers(exchange, message, ret_request, ret_heartbeat) &&
           read_selection(exchange, &selection, ret_request) &&
           read_client_id(exchange, message, ret_request) &&
           read_shards(exchange, message, ids, ret_request);
}

bool ks_open_request_poll(struct ks_exchange *exchange, struct ks_session_request *request)
{
    ks_pb_open_request wanted;
    struct selection selection;
    ks_view ignored;

    kinesis_sidecar__v1__open_request__init(&wanted);
    if (!query_ordering(exchange, &wanted) || !query_selection(exchange, &selection) ||
        !read_ordering(exchange, &wanted, request) ||
        !read_selection(exchange, &selection, request))
        return false;
    if (!ks_request_param(&exchange->request, "ordering", &ignored))
        request->ordering = KS_ORDER_ANY;
    return true;
}
