/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/listing.h"

#include "aws/xml.h"
#include "base/codec.h"

bool ks_s3_etag_is_valid(ks_view etag)
{
    for (size_t at = 0; at < etag.size; at++)
        if (etag.data[at] <= ' ' || etag.data[at] >= 0x7f)
            return false;
    return etag.size > 2 && etag.size <= KS_S3_ETAG_MAX;
}

ks_err ks_s3_listing_read(ks_view answer, struct ks_s3_listing *ret_listing)
{
    struct ks_s3_listing listing = {.truncated = false};
    ks_view inner;
    char word[8];

    if (!ks_ok(ks_xml_child(answer, "ListBucketResult", &listing.rest)) ||
        !ks_ok(ks_xml_child(listing.rest, "IsTruncated", &inner)) ||
        !ks_ok(ks_xml_text(inner, word, sizeof(word))))
        return KS_FAIL(MALFORMED);
    listing.truncated = strcmp(word, "true") == 0;
    if (!listing.truncated && strcmp(word, "false") != 0)
        return KS_FAIL(MALFORMED);
    *ret_listing = listing;
    return KS_OK;
}

/* In place. */
static ks_err decode(char *text)
{
    const size_t size = strlen(text);
    size_t end = 0;

    for (size_t at = 0; at < size; at++) {
        uint8_t byte = (uint8_t)text[at];

        if (byte == '%') {
            if (size - at < 3)
                return KS_FAIL(MALFORMED);
            KS_TRY(ks_hex_decode(ks_view_of(text + at + 1, 2), &byte));
            at += 2;
        }
        if (byte == '\0')
            return KS_FAIL(MALFORMED);
        text[end++] = (char)byte;
    }
    text[end] = '\0';
    return KS_OK;
}

static ks_err read_key(ks_view contents, char ret_key[KS_S3_KEY_MAX + 1])
{
    char encoded[3 * KS_S3_KEY_MAX + 1];
    ks_view inner;

    KS_TRY(ks_xml_child(contents, "Key", &inner));
    KS_TRY(ks_xml_text(inner, encoded, sizeof(encoded)));
    KS_TRY(decode(encoded));
    return ks_view_copy_text(ks_view_text(encoded), ret_key, KS_S3_KEY_MAX + 1);
}

ks_err ks_s3_listing_next(struct ks_s3_listing *listing, struct ks_s3_object *ret_object)
{
    struct ks_s3_object object = {.size = 0};
    ks_view contents;
    ks_view inner;
    char number[24];

    KS_TRY(ks_xml_next(&listing->rest, "Contents", &contents));
    if (!ks_ok(read_key(contents, object.key)) || !ks_ok(ks_xml_child(contents, "Size", &inner)) ||
        !ks_ok(ks_xml_text(inner, number, sizeof(number))) ||
        !ks_ok(ks_view_u64(ks_view_text(number), &object.size)))
        return KS_FAIL(MALFORMED);
    if (!ks_ok(ks_xml_child(contents, "ETag", &inner)) ||
        !ks_ok(ks_xml_text(inner, object.etag, sizeof(object.etag))) ||
        !ks_s3_etag_is_valid(ks_view_text(object.etag)))
        object.etag[0] = '\0';
    *ret_object = object;
    return KS_OK;
}
