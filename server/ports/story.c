/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/story.h"

#include "base/bytes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct story {
    enum ks_log_level level;
    const char *event;
    const char *sentence;
};

static const struct story stories[] = {
#define X(word, level, event, sentence) [KS_STORY_##word] = {KS_LOG_##level, event, sentence},
    KS_STORY_TABLE(X)
#undef X
};

static const struct story *story_of(enum ks_story story)
{
    assert((size_t)story < sizeof stories / sizeof stories[0]);
    return &stories[story];
}

enum ks_log_level ks_story_level(enum ks_story story)
{
    return story_of(story)->level;
}

const char *ks_story_event(enum ks_story story)
{
    return story_of(story)->event;
}

static const char *cause_text(enum ks_cause cause)
{
    switch (cause) {
    case KS_CAUSE_ASKED: return "on request";
    case KS_CAUSE_ATTEMPTS: return "failed too often";
    case KS_CAUSE_AGE: return "too old to be tried again";
    }
    assert(false);
    return "";
}

struct word {
    const char *name;
    char text[KS_SEQUENCE_MAX + 24]; /* A number, or */
    const char *given;               /* a name. */
};

static const char *word_of(const struct word *words, size_t count, ks_view name)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_view_equal(ks_view_text(words[i].name), name))
            return words[i].given != NULL ? words[i].given : words[i].text;
    }
    assert(false); /* A sentence names a placeholder that there is not. */
    return "";
}

static void append(char *line, size_t *length, ks_view text)
{
    size_t room = KS_STORY_LINE_MAX - 1 - *length;
    size_t size = text.size < room ? text.size : room;

    if (size > 0)
        memcpy(line + *length, text.data, size);
    *length += size;
    line[*length] = '\0';
}

static void name_record(const struct ks_record *record, uint64_t number, struct word *word)
{
    if (record == NULL)
        (void)snprintf(word->text, sizeof word->text, "number %" PRIu64, number);
    else if (record->sub_sequence < 0)
        (void)snprintf(word->text, sizeof word->text, "%.*s", (int)record->sequence.size,
                       (const char *)record->sequence.data);
    else
        (void)snprintf(word->text, sizeof word->text, "%.*s.%" PRId64, (int)record->sequence.size,
                       (const char *)record->sequence.data, record->sub_sequence);
}

void ks_story_line(const struct ks_effect *effect, const char *shard, const char *worker,
                   const struct ks_record *record, char ret_line[KS_STORY_LINE_MAX])
{
    enum { BOOT = 2, EPOCH, NUMBER, COUNT, MS, CAUSE, RECORD, WORDS };
    struct word words[WORDS] = {
        {"shard", "", shard}, {"worker", "", worker},
        {"boot", "", NULL},   {"epoch", "", NULL},
        {"number", "", NULL}, {"count", "", NULL},
        {"ms", "", NULL},     {"cause", "", cause_text(effect->story.cause)},
        {"record", "", NULL},
    };
    ks_view rest;
    size_t length = 0;

    assert(effect->kind == KS_EFFECT_STORY);

    rest = ks_view_text(story_of(effect->story.story)->sentence);
    (void)snprintf(words[BOOT].text, sizeof words->text, "%016" PRIx64, effect->story.worker.boot);
    (void)snprintf(words[EPOCH].text, sizeof words->text, "%" PRIu64, effect->story.epoch);
    (void)snprintf(words[NUMBER].text, sizeof words->text, "%" PRIu64, effect->story.number);
    (void)snprintf(words[COUNT].text, sizeof words->text, "%" PRIu32, effect->story.count);
    (void)snprintf(words[MS].text, sizeof words->text, "%" PRId64,
                   ks_span_to_ms(effect->story.span));
    name_record(record, effect->story.number, &words[RECORD]);

    ret_line[0] = '\0';
    while (rest.data != NULL) {
        ks_view plain = ks_view_cut(&rest, '{');

        append(ret_line, &length, plain);
        if (rest.data != NULL)
            append(ret_line, &length, ks_view_text(word_of(words, WORDS, ks_view_cut(&rest, '}'))));
    }
}

/* Who was to have the lease was decided by these. */
static bool decides(enum ks_story story)
{
    return story == KS_STORY_ASSIGNED || story == KS_STORY_TAKEN_OVER || story == KS_STORY_MOVES ||
           story == KS_STORY_FORCED;
}

void ks_story_keep(struct ks_story_note *note, const struct ks_effect *effect)
{
    assert(effect->kind == KS_EFFECT_STORY);

    if (effect->story.story == KS_STORY_ACQUIRED && note->told && decides(note->story))
        return;
    *note = (struct ks_story_note){
        .told = true,
        .story = effect->story.story,
        .worker = effect->story.worker,
        .epoch = effect->story.epoch,
        .number = effect->story.number,
        .count = effect->story.count,
        .span = effect->story.span,
        .cause = effect->story.cause,
    };
}

void ks_story_reason(const struct ks_story_note *note, const char *shard, const char *worker,
                     const struct ks_record *record, char ret_line[KS_STORY_LINE_MAX])
{
    struct ks_effect effect = {.kind = KS_EFFECT_STORY};

    ret_line[0] = '\0';
    if (!note->told)
        return;
    effect.story.story = note->story;
    effect.story.worker = note->worker;
    effect.story.epoch = note->epoch;
    effect.story.number = note->number;
    effect.story.count = note->count;
    effect.story.span = note->span;
    effect.story.cause = note->cause;
    ks_story_line(&effect, shard, worker, record, ret_line);
}
