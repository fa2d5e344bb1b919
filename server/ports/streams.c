/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/streams.h"

#include "base/options_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

enum { EPOCH_DIGITS_MAX = 19 }; /* Of a Java long. */

static bool is_number(ks_view text, size_t digits_max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0 && text.size <= digits_max;
}

/* Letters, digits, . _ and -, as Kinesis has them. */
static bool is_name(ks_view text)
{
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t c = text.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return text.size > 0 && text.size <= KS_STREAM_NAME_MAX;
}

bool ks_stream_id_read(ks_view text, struct ks_stream_id *ret_id)
{
    struct ks_stream_id id;

    id.account = ks_view_cut(&text, ':');
    id.name = ks_view_cut(&text, ':');
    id.epoch = text;
    if (!is_number(id.account, KS_ACCOUNT_MAX) || !is_name(id.name) ||
        !is_number(id.epoch, EPOCH_DIGITS_MAX) || id.epoch.data[0] == '0')
        return false;
    *ret_id = id;
    return true;
}

bool ks_stream_key_read(ks_view key, ks_view *ret_stream, ks_view *ret_shard)
{
    struct ks_stream_id id;
    size_t end = key.size;

    while (end > 0 && key.data[end - 1] != ':')
        end--;
    if (end == 0 || !ks_stream_id_read(ks_view_of(key.data, end - 1), &id))
        return false;
    *ret_stream = ks_view_of(key.data, end - 1);
    *ret_shard = ks_view_of(key.data + end, key.size - end);
    return true;
}

void ks_stream_key(const struct ks_store_lease *lease, char ret_key[KS_LEASE_KEY_MAX + 1])
{
    (void)snprintf(ret_key, KS_LEASE_KEY_MAX + 1, "%s%s%s", lease->stream,
                   lease->stream[0] == '\0' ? "" : ":", lease->shard);
}

int ks_stream_order(const char *stream_a, const char *shard_a, const char *stream_b,
                    const char *shard_b)
{
    const int order = strcmp(stream_a, stream_b);

    return order != 0 ? order : strcmp(shard_a, shard_b);
}

/* An account that nobody said may be any. */
bool ks_stream_means(const char *word, ks_view text)
{
    struct ks_stream_id id;
    ks_view account;
    ks_view name;

    ks_option_stream(word, &account, &name);
    return ks_stream_id_read(text, &id) && ks_view_equal(name, id.name) &&
           (account.size == 0 || ks_view_equal(account, id.account));
}

/* ---- Which is ours ---- */

static enum ks_choice choose_one(struct ks_streams *streams, struct ks_detail *ret_detail)
{
    if (streams->several) {
        ks_detail_set(ret_detail,
                      "the lease table is that of a KCL that reads one stream: others cannot have "
                      "rows there, give them another --application");
        return KS_CHOICE_REFUSED;
    }
    streams->layout = KS_LAYOUT_ONE;
    return KS_CHOICE_MADE;
}

/* As Kinesis describes it. */
static enum ks_choice describe(const struct ks_streams *streams, char ret_id[KS_STREAM_ID_MAX + 1],
                               struct ks_detail *ret_detail)
{
    struct ks_stream_id id;
    ks_view account;
    ks_view name;

    if (!streams->described)
        return KS_CHOICE_WAITS;
    ks_option_stream(streams->arn, &account, &name);
    (void)snprintf(ret_id, KS_STREAM_ID_MAX + 1, "%.*s:%.*s:%" PRId64, (int)account.size,
                   (const char *)account.data, (int)name.size, (const char *)name.data,
                   streams->created_ms / 1000);
    if (ks_stream_id_read(ks_view_text(ret_id), &id))
        return KS_CHOICE_MADE;
    ks_detail_set(ret_detail,
                  "stream %.60s has no account, or nobody says when it was made: a lease table of "
                  "several streams has no name for it",
                  streams->word);
    return KS_CHOICE_REFUSED;
}

/* The one identifier in the rows that has the account and the name of `id`: how many there are. */
static uint32_t count_alike(const struct ks_store_lease *leases, uint32_t count, const char *id,
                            const char **ret_first, const char **ret_other)
{
    struct ks_stream_id ours;
    uint32_t alike = 0;
    const bool read = ks_stream_id_read(ks_view_text(id), &ours);

    assert(read);
    for (uint32_t i = 0; i < count; i++) {
        const char *const stream = leases[i].stream;
        struct ks_stream_id found;

        if (!ks_stream_id_read(ks_view_text(stream), &found) ||
            !ks_view_equal(found.account, ours.account) || !ks_view_equal(found.name, ours.name))
            continue;
        if (alike == 0) {
            *ret_first = stream;
            alike = 1;
        } else if (strcmp(stream, *ret_first) != 0) {
            *ret_other = stream;
            alike = 2;
        }
        if (strcmp(stream, id) == 0) {
            *ret_first = stream;
            return 1;
        }
    }
    return alike;
}

static enum ks_choice choose_several(struct ks_streams *streams,
                                     const struct ks_store_lease *leases, uint32_t count,
                                     struct ks_detail *ret_detail)
{
    char id[KS_STREAM_ID_MAX + 1];
    const char *found = id;
    const char *other = "";
    const enum ks_choice described = describe(streams, id, ret_detail);

    if (described != KS_CHOICE_MADE)
        return described;
    if (count_alike(leases, count, id, &found, &other) > 1) {
        ks_detail_set(ret_detail,
                      "the lease table has rows of %.50s and of %.50s: which of them are stream "
                      "%.40s? Delete the others",
                      found, other, streams->word);
        return KS_CHOICE_REFUSED;
    }
    memcpy(streams->id, found, strlen(found) + 1);
    streams->layout = KS_LAYOUT_SEVERAL;
    return KS_CHOICE_MADE;
}

enum ks_choice ks_streams_choose(struct ks_streams *streams, const struct ks_store_lease *leases,
                                 uint32_t count, struct ks_detail *ret_detail)
{
    uint32_t several = 0;
    uint32_t one = 0;

    assert(streams->layout == KS_LAYOUT_OPEN);
    for (uint32_t i = 0; i < count; i++) {
        several += leases[i].stream[0] != '\0';
        one += leases[i].stream[0] == '\0' && !leases[i].damaged;
    }
    if (one > 0 && several > 0) {
        ks_detail_set(ret_detail,
                      "the lease table has rows of a KCL that reads one stream and of one that "
                      "reads several, %" PRIu32 " and %" PRIu32 ": take out those that are over",
                      one, several);
        return KS_CHOICE_REFUSED;
    }
    if (several > 0 || (one == 0 && streams->several))
        return choose_several(streams, leases, count, ret_detail);
    return choose_one(streams, ret_detail);
}

bool ks_streams_serve(const struct ks_streams *streams, const char *id)
{
    if (strcmp(id, streams->id) == 0)
        return true;
    for (uint32_t i = 0; i < streams->kin_count; i++)
        if (ks_stream_means(streams->kin[i], ks_view_text(id)))
            return true;
    return false;
}
