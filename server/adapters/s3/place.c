/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/place.h"

#include <stdio.h>

/* Letters, digits and `others`. */
static bool has_only(ks_view text, bool capitals, const char *others)
{
    for (size_t at = 0; at < text.size; at++) {
        const uint8_t c = text.data[at];
        const bool letter = (c >= 'a' && c <= 'z') || (capitals && c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return true;
}

static bool ends_with(ks_view text, ks_view end)
{
    return text.size >= end.size &&
           ks_view_equal(ks_view_of(text.data + text.size - end.size, end.size), end);
}

static bool is_bucket(ks_view text)
{
    return text.size >= 3 && text.size <= KS_BUCKET_MAX && has_only(text, false, ".-") &&
           has_only(ks_view_of(text.data, 1), false, "") &&
           has_only(ks_view_of(text.data + text.size - 1, 1), false, "") &&
           memmem(text.data, text.size, "..", 2) == NULL;
}

/* Parts that a file system or a client would take for a step up or for nothing are none. */
static bool is_prefix(ks_view text)
{
    while (text.data != NULL) {
        const ks_view part = ks_view_cut(&text, '/');

        if (part.size == 0 || part.data[0] == '.' || !has_only(part, true, "._-="))
            return false;
    }
    return true;
}

static ks_err read_prefix(ks_view text, struct ks_s3_place *place, struct ks_detail *detail)
{
    if (ends_with(text, KS_VIEW("/")))
        text.size--;
    if (text.size == 0)
        return KS_OK;
    if (!is_prefix(text) || text.size >= KS_S3_PREFIX_MAX)
        return ks_err_because(
            KS_FAIL(INVALID), detail,
            "the prefix of an s3:// URL has up to %d letters, digits, . _ - and =, "
            "in parts between slashes that do not begin with a dot",
            KS_S3_PREFIX_MAX - 1);
    (void)snprintf(place->prefix, sizeof(place->prefix), "%.*s/", (int)text.size,
                   (const char *)text.data);
    return KS_OK;
}

/* `text` follows the '?'. */
static ks_err read_query(ks_view text, struct ks_s3_place *place, struct ks_detail *detail)
{
    const ks_view name = KS_VIEW("kms-key=");
    ks_view key = KS_VIEW("");

    if (ks_view_starts(text, name))
        key = ks_view_of(text.data + name.size, text.size - name.size);
    if (key.size == 0 || !has_only(key, true, ":/_-") ||
        !ks_ok(ks_view_copy_text(key, place->kms_key, sizeof(place->kms_key))))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "an s3:// URL may end with ?kms-key=KEY and nothing else: the ID or "
                              "the ARN of a key of KMS");
    return KS_OK;
}

ks_err ks_s3_place_read(const char *url, struct ks_s3_place *ret_place, struct ks_detail *detail)
{
    struct ks_s3_place place = {.bucket = ""};
    const ks_view whole = ks_view_text(url);
    const ks_view scheme = KS_VIEW("s3://");
    ks_view query;
    ks_view prefix;
    ks_view bucket;

    if (!ks_view_starts(whole, scheme))
        return ks_err_because(KS_FAIL(INVALID), detail, "it is not s3://BUCKET/PREFIX");
    query = ks_view_of(whole.data + scheme.size, whole.size - scheme.size);
    prefix = ks_view_cut(&query, '?');
    bucket = ks_view_cut(&prefix, '/');
    if (!is_bucket(bucket))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "the bucket of an s3:// URL has 3 to %d lower-case letters, digits, "
                              "dots and hyphens",
                              KS_BUCKET_MAX);
    if (ends_with(bucket, KS_VIEW("--x-s3")))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "a directory bucket lists its objects in no order: use a general "
                              "purpose bucket");
    KS_TRY(ks_view_copy_text(bucket, place.bucket, sizeof(place.bucket)));
    KS_TRY(read_prefix(prefix, &place, detail));
    if (query.data != NULL)
        KS_TRY(read_query(query, &place, detail));
    *ret_place = place;
    return KS_OK;
}
