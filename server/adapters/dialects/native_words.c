/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/native_words.h"

#include "adapters/dialects/native.h"

#include <assert.h>
#include <inttypes.h>

static const struct ks_attribute attributes[] = {
#define X(index, name, type) {name, KS_VALUE_##type},
    KS_NATIVE_ATTRIBUTES(X)
#undef X
};

const struct ks_schema ks_native_schema = {.attributes = attributes,
                                           .count = sizeof(attributes) / sizeof(attributes[0])};

const char *const ks_native_lives[KS_LIVES] = {"live", "fenced", "gone"};
const char *const ks_native_modes[KS_MODES] = {"active", "idle", "draining", "failing"};

enum {
    BOOT_DIGITS = 16,
    EPOCH_DIGITS_MAX = 19, /* INT64_MAX has as many. */
    POSITIONS = KS_POSITION_SHARD_END + 1
};

/* Before or instead of the digits; the order of enum ks_position_kind. */
static const struct {
    const char *word;
    bool digits;
} positions[POSITIONS] = {
    {"TRIM_HORIZON", false}, {"LATEST", false},    {"AT_TIMESTAMP", false}, {"", true},
    {"AT_SEQUENCE:", true},  {"SHARD_END", false},
};

bool ks_native_is_worker_id(ks_view id)
{
    return id.size >= 1 && id.size <= KS_WORKER_ID_MAX && id.data[0] != '#' &&
           memchr(id.data, '\n', id.size) == NULL && ks_view_is_utf8(id);
}

static bool is_shard_character(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

bool ks_native_is_shard(ks_view shard)
{
    if (shard.size < 1 || shard.size > KS_SHARD_ID_MAX)
        return false;
    for (size_t at = 0; at < shard.size; at++)
        if (!is_shard_character(shard.data[at]))
            return false;
    return true;
}

bool ks_native_is_decimal(ks_view text, size_t digits_max)
{
    if (text.size < 1 || text.size > digits_max || (text.size > 1 && text.data[0] == '0'))
        return false;
    for (size_t at = 0; at < text.size; at++)
        if (text.data[at] < '0' || text.data[at] > '9')
            return false;
    return true;
}

ks_err ks_native_put_boot(struct ks_bytes *bytes, uint64_t boot)
{
    return ks_bytes_format(bytes, "%016" PRIx64, boot);
}

ks_err ks_native_get_boot(ks_view text, uint64_t *ret_boot)
{
    uint64_t boot = 0;

    if (text.size != BOOT_DIGITS)
        return KS_FAIL(MALFORMED);
    for (size_t at = 0; at < BOOT_DIGITS; at++) {
        const uint8_t c = text.data[at];

        if (c >= '0' && c <= '9')
            boot = boot << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            boot = boot << 4 | (uint64_t)(c - 'a' + 10);
        else
            return KS_FAIL(MALFORMED);
    }
    *ret_boot = boot;
    return KS_OK;
}

ks_err ks_native_put_incarnation(struct ks_bytes *bytes, const struct ks_incarnation_text *who)
{
    if (!ks_native_is_worker_id(ks_view_text(who->id)))
        return KS_FAIL(INVALID);
    return ks_bytes_format(bytes, "%s#%016" PRIx64, who->id, who->boot);
}

ks_err ks_native_get_incarnation(ks_view text, struct ks_incarnation_text *ret_who)
{
    ks_view id;
    ks_view mark;

    if (text.size <= BOOT_DIGITS || !ks_ok(ks_view_take(&text, text.size - BOOT_DIGITS - 1, &id)) ||
        !ks_ok(ks_view_take(&text, 1, &mark)))
        return KS_FAIL(MALFORMED);
    if (mark.data[0] != '#' || !ks_native_is_worker_id(id))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_native_get_boot(text, &ret_who->boot));
    return ks_view_copy_text(id, ret_who->id, sizeof(ret_who->id));
}

ks_err ks_native_put_token(struct ks_bytes *bytes, const struct ks_store_token *token)
{
    if (!ks_native_is_shard(ks_view_text(token->shard)) || token->epoch > INT64_MAX)
        return KS_FAIL(INVALID);
    return ks_bytes_format(bytes, "%s@%" PRIu64, token->shard, token->epoch);
}

ks_err ks_native_get_token(ks_view text, struct ks_store_token *ret_token)
{
    /* No shard id holds a '@'. */
    const ks_view shard = ks_view_cut(&text, '@');

    if (!ks_native_is_shard(shard) || !ks_native_is_decimal(text, EPOCH_DIGITS_MAX))
        return KS_FAIL(MALFORMED);
    if (!ks_ok(ks_view_u64(text, &ret_token->epoch)) || ret_token->epoch > INT64_MAX)
        return KS_FAIL(MALFORMED);
    return ks_view_copy_text(shard, ret_token->shard, sizeof(ret_token->shard));
}

ks_err ks_native_put_position(struct ks_bytes *bytes, const struct ks_position *position)
{
    if ((unsigned)position->kind >= POSITIONS)
        return KS_FAIL(INVALID);
    if (!positions[position->kind].digits)
        return ks_bytes_append(bytes, ks_view_text(positions[position->kind].word));
    if (!ks_native_is_decimal(ks_view_text(position->sequence), KS_SEQUENCE_MAX))
        return KS_FAIL(INVALID);
    return ks_bytes_format(bytes, "%s%s", positions[position->kind].word, position->sequence);
}

ks_err ks_native_get_position(ks_view text, struct ks_position *ret_position)
{
    for (unsigned kind = 0; kind < POSITIONS; kind++) {
        const ks_view word = ks_view_text(positions[kind].word);
        ks_view rest = text;
        ks_view begin;

        if (!ks_view_starts(text, word) || !ks_ok(ks_view_take(&rest, word.size, &begin)))
            continue;
        if (positions[kind].digits ? !ks_native_is_decimal(rest, KS_SEQUENCE_MAX) : rest.size != 0)
            continue;
        *ret_position =
            (struct ks_position){.kind = (enum ks_position_kind)kind, .sub_sequence = -1};
        if (!positions[kind].digits)
            return KS_OK;
        return ks_view_copy_text(rest, ret_position->sequence, sizeof(ret_position->sequence));
    }
    return KS_FAIL(MALFORMED);
}
