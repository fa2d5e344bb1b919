/* SPDX-License-Identifier: Apache-2.0 */
/* portion.h - how many records a GetRecords asks for.
 *
 * As many as the reader wants and the budget has room for, judged by the last ones. An answer that does not fit is
 * thrown away, asked for again, and counted by the server all the same: rather a read waits, up to 3 s, until there is
 * room for a fair part of what it wants. Then it asks for one at least: the next record may be smaller than the last
 * ones were, and nobody may give anything back.
 * Pure: instants and numbers come in, a number goes out.
 */
#ifndef KS_ADAPTERS_KINESIS_PORTION_H
#define KS_ADAPTERS_KINESIS_PORTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"

enum {
    /* What a record is taken to be before the first one came: a first read of 1 MiB asks for 100. */
    KS_PORTION_GUESS = 10240,
    /* Of a record in an answer, beside its data and key: names, sequence number, times. */
    KS_PORTION_WORDS = 256,
    KS_PORTION_WAIT_MS = 3000
};

struct ks_portion {
    uint64_t record_bytes; /* Of the last ones, on average; 0: none came yet. */
    uint32_t limit_max;    /* Falls while answers do not fit. */
    ks_instant cramped_at; /* Since when this read waits for room; KS_NEVER: it does not. */
};

/* The budget as it is now. */
struct ks_portion_room {
    uint64_t allowed;
    uint64_t used;
    uint64_t promised; /* To answers that are under way. */
};

void ks_portion_init(struct ks_portion *portion);
/* A new read: it has waited for nothing yet. */
void ks_portion_begin(struct ks_portion *portion);
/* Records to ask for now; 0: wait, and ask again when there may be more room. `cbor`: how they will come. */
uint32_t ks_portion_next(struct ks_portion *portion, ks_instant now, uint32_t max_records,
                         uint32_t max_bytes, bool cbor, const struct ks_portion_room *room);
/* Bytes of the budget that so many records will take while they arrive; 0 while none came yet. */
uint64_t ks_portion_bytes(const struct ks_portion *portion, uint32_t limit, bool cbor);
/* Records came, with so many bytes of data and keys. */
void ks_portion_came(struct ks_portion *portion, uint32_t count, uint64_t bytes);
/* An answer to a question for so many did not fit. */
void ks_portion_full(struct ks_portion *portion, uint32_t limit);

#endif
