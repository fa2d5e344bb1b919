/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/portion.h"

#include "ports/stream_source.h"

/* Room for less than this part of what is wanted is not worth a request. */
enum { FAIR_DIVISOR = 4 };

void ks_portion_init(struct ks_portion *portion)
{
    *portion = (struct ks_portion){.limit_max = KS_READ_RECORDS_MAX, .cramped_at = KS_NEVER};
}

void ks_portion_begin(struct ks_portion *portion)
{
    portion->cramped_at = KS_NEVER;
}

/* In the body, where they stay. */
static uint64_t bytes_of_each(const struct ks_portion *portion, bool cbor)
{
    uint64_t body = portion->record_bytes + KS_PORTION_WORDS;

    if (!cbor)
        body += portion->record_bytes / 3;
    return body + sizeof(struct ks_record);
}

uint64_t ks_portion_bytes(const struct ks_portion *portion, uint32_t limit, bool cbor)
{
    return portion->record_bytes == 0 ? 0 : limit * bytes_of_each(portion, cbor);
}

static uint32_t wanted(const struct ks_portion *portion, uint32_t max_records, uint32_t max_bytes)
{
    uint64_t each = portion->record_bytes == 0 ? KS_PORTION_GUESS : portion->record_bytes;
    uint64_t limit = max_bytes / each;

    if (limit > max_records)
        limit = max_records;
    if (limit > portion->limit_max)
        limit = portion->limit_max;
    return limit == 0 ? 1 : (uint32_t)limit;
}

uint32_t ks_portion_next(struct ks_portion *portion, ks_instant now, uint32_t max_records,
                         uint32_t max_bytes, bool cbor, const struct ks_portion_room *room)
{
    uint32_t limit = wanted(portion, max_records, max_bytes);
    uint64_t taken = room->used + room->promised;
    uint64_t left = taken < room->allowed ? room->allowed - taken : 0;
    uint64_t fit = left / bytes_of_each(portion, cbor);

    if (portion->record_bytes == 0 || fit >= limit)
        return limit;
    portion->cramped_at = ks_instant_min(portion->cramped_at, now);
    /* Where nothing is taken nothing will be given back. */
    if (fit < limit / FAIR_DIVISOR + 1 && taken > 0 &&
        !ks_instant_reached(now,
                            ks_instant_add(portion->cramped_at, ks_span_ms(KS_PORTION_WAIT_MS))))
        return 0;
    return fit == 0 ? 1 : (uint32_t)fit;
}

void ks_portion_came(struct ks_portion *portion, uint32_t count, uint64_t bytes)
{
    uint32_t twice = portion->limit_max * 2;

    portion->limit_max = twice < KS_READ_RECORDS_MAX ? twice : KS_READ_RECORDS_MAX;
    if (count == 0)
        return;
    uint64_t mean = bytes / count + 1;
    uint64_t smooth = portion->record_bytes == 0 ? mean : (portion->record_bytes + mean) / 2;
    /* Large records are believed at once, small ones step by step. */
    portion->record_bytes = mean > smooth ? mean : smooth;
}

void ks_portion_full(struct ks_portion *portion, uint32_t limit)
{
    portion->limit_max = limit > 1 ? limit / 2 : 1;
}
