/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/letter.h"

#include "base/budget.h"
#include "core/limits.h"

#include <assert.h>
#include <string.h>

/* ---- What others may have written ---- */

/* Letters, digits and `others`: JSON and the path of a URL take them as they are. */
static bool is_name(ks_view text, size_t max, const char *others)
{
    for (size_t i = 0; i < text.size && text.size <= max; i++) {
        const uint8_t c = text.data[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return text.size > 0 && text.size <= max;
}

bool ks_letter_is_number(ks_view text, size_t max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0 && text.size <= max && (text.data[0] != '0' || text.size == 1);
}

/* Empties the column unless it can be. */
static void judge(bool can_be, ks_view *column_view, const char *name, const char **first)
{
    if (can_be)
        return;
    *column_view = KS_VIEW("");
    if (*first == NULL)
        *first = name;
}

const char *ks_letter_clean(struct ks_letter *letter)
{
    const char *first = NULL;

    judge(is_name(letter->id, KS_LETTER_ID_MAX, "._-"), &letter->id, "id", &first);
    /* An ARN, too. */
    judge(is_name(letter->stream, KS_LETTER_STREAM_MAX, "._-:/"), &letter->stream, "stream",
          &first);
    judge(is_name(letter->shard_id, KS_SHARD_ID_MAX, "._-"), &letter->shard_id, "shard", &first);
    judge(ks_letter_is_number(letter->sequence, KS_SEQUENCE_MAX), &letter->sequence, "sequence",
          &first);
    judge(letter->partition_key.size <= KS_PARTITION_KEY_MAX, &letter->partition_key, "key",
          &first);
    judge(letter->data.size <= KS_RECORD_BYTES_MAX, &letter->data, "data", &first);
    judge(letter->claim.size <= KS_LETTER_CLAIM_MAX && ks_view_is_unicode(letter->claim),
          &letter->claim, "claim", &first);
    judge(letter->reason.size <= KS_LETTER_REASON_MAX && ks_view_is_unicode(letter->reason),
          &letter->reason, "reason", &first);
    return first;
}

void ks_letter_drop_claim(struct ks_letter *letter, int64_t now_ms)
{
    if (letter->claim.size > 0 && letter->claimed_until_ms >= now_ms)
        return;
    letter->claim = KS_VIEW("");
    letter->claimed_until_ms = 0;
}

/* ---- Ids ---- */

bool ks_letter_cut_last(ks_view *text, ks_view *ret_part)
{
    for (size_t at = text->size; at > 0; at--) {
        if (text->data[at - 1] != '.')
            continue;
        *ret_part = ks_view_of(text->data + at, text->size - at);
        text->size = at - 1;
        return true;
    }
    return false;
}

/* ---- Lists ---- */

ks_err ks_letter_list_init(struct ks_letter_list *list, uint32_t most, size_t bytes_max)
{
    *list = (struct ks_letter_list){.most = most};
    ks_bytes_init(&list->bytes, bytes_max);
    if (most == 0)
        return KS_OK;
    list->letters = ks_alloc(most * sizeof *list->letters);
    return list->letters == NULL ? KS_FAIL(NO_MEMORY) : KS_OK;
}

void ks_letter_list_free(struct ks_letter_list *list)
{
    ks_bytes_free(&list->bytes);
    ks_free(list->letters);
    list->letters = NULL;
}

void ks_letter_list_clear(struct ks_letter_list *list)
{
    ks_bytes_clear(&list->bytes);
    list->count = 0;
}

static ks_view *view_of(struct ks_letter *letter, uint32_t index)
{
    ks_view *const views[] = {&letter->id,       &letter->stream,        &letter->shard_id,
                              &letter->sequence, &letter->partition_key, &letter->data,
                              &letter->reason,   &letter->claim};

    return index < sizeof views / sizeof views[0] ? views[index] : NULL;
}

ks_err ks_letter_list_add(struct ks_letter_list *list, const struct ks_letter *letter)
{
    struct ks_letter *const place = &list->letters[list->count];
    ks_view *view;

    assert(list->count < list->most);
    *place = *letter;
    for (uint32_t i = 0; (view = view_of(place, i)) != NULL; i++)
        KS_TRY(ks_bytes_append(&list->bytes, *view));
    list->count++;
    return KS_OK;
}

void ks_letter_list_settle(struct ks_letter_list *list)
{
    ks_view *view;
    size_t at = 0;

    for (uint32_t n = 0; n < list->count; n++) {
        for (uint32_t i = 0; (view = view_of(&list->letters[n], i)) != NULL; i++) {
            if (view->size > 0)
                *view = ks_view_of(list->bytes.data + at, view->size);
            at += view->size;
        }
    }
}

/* ---- Calls ---- */

void ks_letters_no_memory(enum ks_outcome outcome, ks_letters_answered *answered, void *arg)
{
    struct ks_letters_answer answer = {.outcome = outcome};

    ks_detail_set(&answer.detail, "out of memory");
    answered(arg, &answer);
}
