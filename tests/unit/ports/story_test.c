/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/story.h"

#include "ks_test.h"

#include <string.h>

static struct ks_effect story(enum ks_story which)
{
    return (struct ks_effect){
        .kind = KS_EFFECT_STORY,
        .story = {.story = which,
                  .shard = 3,
                  .worker = {7, UINT64_C(0xab)},
                  .epoch = 12,
                  .number = 34,
                  .count = 5,
                  .span = ks_span_ms(10500)},
    };
}

TEST(sentences_carry_names_and_numbers)
{
    struct ks_effect effect = story(KS_STORY_ACQUIRED);
    char line[KS_STORY_LINE_MAX];

    ks_story_line(&effect, "shard-3", "pod-b", NULL, line);
    EXPECT_STR(line, "shard-3: acquired, epoch 12");

    effect = story(KS_STORY_REGISTERED);
    ks_story_line(&effect, "", "pod-b", NULL, line);
    EXPECT_STR(line, "pod-b: registered under boot 00000000000000ab");

    effect = story(KS_STORY_FENCES);
    ks_story_line(&effect, "", "pod-b", NULL, line);
    EXPECT_STR(line, "pod-b: fenced, silent for 10500 ms");
}

TEST(a_record_is_named_by_its_sequence_number_if_it_is_in_memory)
{
    struct ks_effect effect = story(KS_STORY_POISON);
    struct ks_record record = {.sequence = ks_view_text("49"), .sub_sequence = -1};
    char line[KS_STORY_LINE_MAX];

    ks_story_line(&effect, "shard-3", "", &record, line);
    EXPECT_STR(line, "shard-3: record 49 failed 5 times");
    record.sub_sequence = 0;
    ks_story_line(&effect, "shard-3", "", &record, line);
    EXPECT_STR(line, "shard-3: record 49.0 failed 5 times");
    ks_story_line(&effect, "shard-3", "", NULL, line);
    EXPECT_STR(line, "shard-3: record number 34 failed 5 times");
}

TEST(every_sentence_renders)
{
#define X(word, level, event, sentence) KS_STORY_##word,
    static const enum ks_story all[] = {KS_STORY_TABLE(X)};
#undef X
    char line[KS_STORY_LINE_MAX];

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct ks_effect effect = story(all[i]);

        ks_story_line(&effect, "shard-3", "pod-b", NULL, line);
        EXPECT(strlen(line) > 10);
        EXPECT(strchr(line, '{') == NULL);
        EXPECT(strchr(line, '}') == NULL);
    }
}

TEST(levels_and_events_come_from_the_table)
{
    EXPECT_EQ_I64(ks_story_level(KS_STORY_ACQUIRED), KS_LOG_INFO);
    EXPECT_EQ_I64(ks_story_level(KS_STORY_LOST), KS_LOG_WARN);
    EXPECT_STR(ks_story_event(KS_STORY_LOST), "lease_lost");
    EXPECT(ks_story_event(KS_STORY_REGISTERED) == NULL);
}

TEST(the_longest_names_are_cut_not_overrun)
{
    struct ks_effect effect = story(KS_STORY_TAKEN_OVER);
    char name[1000];
    char line[KS_STORY_LINE_MAX];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ks_story_line(&effect, name, name, NULL, line);
    EXPECT_EQ_U64(strlen(line), KS_STORY_LINE_MAX - 1);
}

TEST(the_reason_is_what_was_decided_last)
{
    struct ks_story_note note = {.told = false};
    struct ks_effect effect = story(KS_STORY_ASSIGNED);
    char line[KS_STORY_LINE_MAX];

    ks_story_reason(&note, "shard-3", "pod-b", NULL, line);
    EXPECT_STR(line, "");
    ks_story_keep(&note, &effect);
    ks_story_reason(&note, "shard-3", "pod-b", NULL, line);
    EXPECT_STR(line, "shard-3: assigned to pod-b, it was free");
    /* It says less than the decision before. */
    effect = story(KS_STORY_ACQUIRED);
    ks_story_keep(&note, &effect);
    EXPECT_EQ_I64(note.story, KS_STORY_ASSIGNED);
    effect = story(KS_STORY_RELEASED);
    ks_story_keep(&note, &effect);
    ks_story_reason(&note, "shard-3", "pod-b", NULL, line);
    EXPECT_STR(line, "shard-3: released, epoch 12 is over");
    effect = story(KS_STORY_ACQUIRED);
    ks_story_keep(&note, &effect);
    ks_story_reason(&note, "shard-3", "pod-b", NULL, line);
    EXPECT_STR(line, "shard-3: acquired, epoch 12");
}
