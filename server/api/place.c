/* SPDX-License-Identifier: Apache-2.0 */
#include "api/place.h"

#include "base/codec.h"

bool ks_place_is_sequence(ks_view text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0 && text.size <= KS_SEQUENCE_MAX && (text.data[0] != '0' || text.size == 1);
}

bool ks_place_read(struct ks_exchange *exchange, const char *name, ks_view text,
                   struct ks_position *ret_place)
{
    struct ks_position place = {.sub_sequence = -1};
    bool good = true;

    if (ks_view_equal(text, KS_VIEW("trim_horizon"))) {
        place.kind = KS_POSITION_TRIM_HORIZON;
    } else if (ks_view_equal(text, KS_VIEW("latest"))) {
        place.kind = KS_POSITION_LATEST;
    } else if (ks_place_is_sequence(text)) {
        place.kind = KS_POSITION_AT_SEQUENCE;
        good = ks_ok(ks_view_copy_text(text, place.sequence, sizeof(place.sequence)));
    } else {
        place.kind = KS_POSITION_AT_TIMESTAMP;
        good = ks_ok(ks_timestamp_parse(text, &place.timestamp_ms)) && place.timestamp_ms >= 0;
    }
    if (!good) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "%s must be trim_horizon, latest, an RFC 3339 instant or a sequence "
                            "number",
                            name);
        return false;
    }
    *ret_place = place;
    return true;
}
