/* SPDX-License-Identifier: Apache-2.0 */
/* put_body.h - the body of PutRecords (Kinesis API reference), scanned in place.
 *
 *     {"Records":[{"Data":"base64","PartitionKey":"k","ExplicitHashKey":"123"}],"StreamName":"s","StreamARN":"a"}
 *
 * Record data never goes through a DOM: base64 is decoded once, into the memory of the result.
 */
#ifndef KS_API_PUT_BODY_H
#define KS_API_PUT_BODY_H

#include "api/limits.h"
#include "ports/stream_source.h"

struct ks_put_body {
    struct ks_put_entry *entries;
    uint32_t count;
    ks_view stream_name; /* Data NULL: absent. */
    ks_view stream_arn;  /* Likewise. */
    void *memory;
};

/* MALFORMED (not JSON), INVALID (JSON, but not such a body), FULL (too many or too large records),
 * NO_MEMORY; the detail says what and where. */
KS_MUST_USE ks_err ks_put_body_read(ks_view body, struct ks_put_body *ret_body,
                                    struct ks_detail *detail);
void ks_put_body_free(struct ks_put_body *body);
/* True if the body names a stream at all. */
static inline bool ks_put_body_names_stream(const struct ks_put_body *body)
{
    return body->stream_name.data != NULL || body->stream_arn.data != NULL;
}
/* True if the body is for this stream: what it names, if anything, is the name, or an ARN that ends
 * with "/" and the name. */
bool ks_put_body_is_for(const struct ks_put_body *body, const char *stream);

#endif
