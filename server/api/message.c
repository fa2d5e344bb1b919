/* SPDX-License-Identifier: Apache-2.0 */
#include "api/message.h"

#include <assert.h>
#include <inttypes.h>

#include "api/codec_json.h"
#include "api/codec_proto.h"
#include "api/rpc.h"

bool ks_media_type_is(ks_view header, const char *type)
{
    ks_view rest = header;

    return ks_view_equal_nocase(ks_view_trim(ks_view_cut(&rest, ';')), ks_view_text(type));
}

bool ks_media_type_is_protobuf(ks_view header)
{
    return ks_media_type_is(header, KS_TYPE_PROTOBUF) ||
           ks_media_type_is(header, "application/protobuf") ||
           ks_media_type_is(header, "application/proto");
}

static uint32_t digit_of(uint8_t byte)
{
    return byte >= '0' && byte <= '9' ? (uint32_t)(byte - '0') : 0;
}

/* The weight of one range of Accept in thousandths (RFC 9110, section 12.4.2): "0.5" is 500. */
static uint32_t weight_of(ks_view range)
{
    ks_view rest = range;
    uint32_t weight = 1000;

    (void)ks_view_cut(&rest, ';');
    while (rest.data != NULL) {
        ks_view value = ks_view_trim(ks_view_cut(&rest, ';'));
        ks_view name = ks_view_cut(&value, '=');
        if (!ks_view_equal_nocase(name, KS_VIEW("q")) || value.size == 0)
            continue;
        weight = value.data[0] == '0' ? 0 : 1000;
        for (size_t i = 2; weight < 1000 && i < value.size && i < 5; i++)
            weight += digit_of(value.data[i]) * (i == 2 ? 100 : i == 3 ? 10 : 1);
    }
    return weight;
}

bool ks_accepts_protobuf(const struct ks_request *request)
{
    ks_view rest = request->accept;
    uint32_t protobuf = 0;
    uint32_t json = 0;

    while (rest.data != NULL) {
        ks_view range = ks_view_cut(&rest, ',');
        uint32_t weight = weight_of(range);
        if (ks_media_type_is_protobuf(range))
            protobuf = weight > protobuf ? weight : protobuf;
        else if (ks_media_type_is(range, KS_TYPE_JSON) || ks_media_type_is(range, KS_TYPE_NDJSON))
            json = weight > json ? weight : json;
    }
    return protobuf > 0 && protobuf >= json;
}

bool ks_message_number(struct ks_exchange *exchange, const char *name, uint64_t value, uint64_t min,
                       uint64_t max, uint64_t absent, uint64_t *ret_value)
{
    if (value == 0)
        value = absent;
    if (value >= min && value <= max) {
        *ret_value = value;
        return true;
    }
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "member \"%s\" must be a whole number from %" PRIu64 " to %" PRIu64, name,
                        min, max);
    return false;
}

static ks_err write_json(const ProtobufCMessage *message, struct ks_bytes *body)
{
    struct ks_writer json;

    ks_writer_begin(&json, body);
    ks_writer_open(&json, '{');
    ks_rest_members(&json, message);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

void ks_exchange_message(struct ks_exchange *exchange, const ProtobufCMessage *message)
{
    const struct ks_request *request = &exchange->request;
    bool binary = ks_accepts_protobuf(request) ||
                  ((request->accept.size == 0 || ks_media_type_is(request->accept, "*/*")) &&
                   ks_media_type_is_protobuf(request->content_type));
    struct ks_bytes body;
    ks_err err;

    if (exchange->inner != NULL) {
        exchange->answered = true;
        exchange->inner->message(exchange, message);
        return;
    }
    if (exchange->rpc != NULL) {
        ks_rpc_message(exchange, message);
        return;
    }
    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    err = binary ? ks_proto_write(message, false, &body) : write_json(message, &body);
    if (ks_ok(err)) {
        ks_exchange_reply(exchange, 200, binary ? KS_TYPE_PROTOBUF : KS_TYPE_JSON, &body);
        return;
    }
    ks_bytes_free(&body);
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "the answer: %s", ks_err_text(err));
}
