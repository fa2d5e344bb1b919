/* SPDX-License-Identifier: Apache-2.0 */
#include "api/envelope.h"

#include <assert.h>

void ks_envelopes_init(struct ks_envelopes *envelopes, size_t max)
{
    *envelopes = (struct ks_envelopes){.whole = false};
    ks_bytes_init(&envelopes->message, max);
}

void ks_envelopes_free(struct ks_envelopes *envelopes)
{
    ks_bytes_free(&envelopes->message);
}

/* Takes up to `wanted` bytes off `part`. */
static ks_view take(ks_view *part, size_t wanted)
{
    ks_view taken = ks_view_of(part->data, part->size < wanted ? part->size : wanted);

    *part = ks_view_of(part->data + taken.size, part->size - taken.size);
    return taken;
}

/* True when all five bytes are there. */
static bool take_head(uint8_t head[KS_ENVELOPE_HEAD], size_t *size, ks_view *part)
{
    ks_view taken = take(part, KS_ENVELOPE_HEAD - *size);

    if (taken.size > 0)
        memcpy(head + *size, taken.data, taken.size);
    *size += taken.size;
    return *size == KS_ENVELOPE_HEAD;
}

static size_t length_of(const uint8_t head[KS_ENVELOPE_HEAD])
{
    ks_view rest = ks_view_of(head + 1, KS_ENVELOPE_HEAD - 1);
    uint32_t length = 0;

    if (!ks_ok(ks_view_take_be32(&rest, &length)))
        assert(false);
    return length;
}

ks_err ks_envelopes_take(struct ks_envelopes *envelopes, ks_view *part, uint8_t *ret_flags,
                         bool *ret_whole)
{
    ks_view taken;

    *ret_whole = false;
    if (envelopes->whole) {
        envelopes->whole = false;
        envelopes->head_size = 0;
        ks_bytes_clear(&envelopes->message);
    }
    if (envelopes->head_size < KS_ENVELOPE_HEAD) {
        if (!take_head(envelopes->head, &envelopes->head_size, part))
            return KS_OK;
        envelopes->missing = length_of(envelopes->head);
        if (envelopes->missing > envelopes->message.max)
            return KS_FAIL(FULL);
    }
    taken = take(part, envelopes->missing);
    KS_TRY(ks_bytes_append(&envelopes->message, taken));
    envelopes->missing -= taken.size;
    if (envelopes->missing > 0)
        return KS_OK;
    envelopes->whole = true;
    *ret_whole = true;
    *ret_flags = envelopes->head[0];
    return KS_OK;
}

bool ks_envelopes_between(const struct ks_envelopes *envelopes)
{
    return envelopes->head_size == 0 || envelopes->whole;
}

void ks_envelope_head(uint8_t head[KS_ENVELOPE_HEAD], uint8_t flags, size_t size)
{
    assert(size <= UINT32_MAX);
    head[0] = flags;
    for (size_t i = 0; i < 4; i++)
        head[1 + i] = (uint8_t)(size >> (24 - 8 * i));
}

void ks_envelope_meter_pass(struct ks_envelope_meter *meter, ks_view part)
{
    while (part.size > 0) {
        if (meter->missing > 0) {
            meter->missing -= take(&part, meter->missing).size;
            continue;
        }
        if (!take_head(meter->head, &meter->head_size, &part))
            return;
        meter->head_size = 0;
        meter->missing = length_of(meter->head);
    }
}

bool ks_envelope_meter_between(const struct ks_envelope_meter *meter)
{
    return meter->head_size == 0 && meter->missing == 0;
}
