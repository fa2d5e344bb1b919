/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - places in the stream as people name them: trim_horizon, latest, an RFC 3339 instant, a sequence number. */
#ifndef KS_API_PLACE_H
#define KS_API_PLACE_H

#include "api/exchange.h"
#include "ports/lease_store.h"

/* True if the text is a sequence number: digits without a leading 0, at most KS_SEQUENCE_MAX of them. */
bool ks_place_is_sequence(ks_view text);
/* Reads a place; digits are the sequence number of the record that is next (AT_SEQUENCE). On anything else the exchange
 * is answered with 400, which names the member `name`, and false is returned. */
bool ks_place_read(struct ks_exchange *exchange, const char *name, ks_view text,
                   struct ks_position *ret_place);

#endif
