/* SPDX-License-Identifier: Apache-2.0 */
#include "s3_rig.h"

#include "adapters/s3/letters.h"
#include "aws/endpoint.h"
#include "base/budget.h"

#include "aws_rig.h"

#include <stdio.h>

struct ks_loop *s3_loop;
struct ks_dead_letters *s3_store;
struct http_script *s3_script;
struct s3_told s3_told;

static struct aws_rig aws;
static struct ks_endpoint_rules rules;

void s3_answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    s3_told.times++;
    s3_told.outcome = answer->outcome;
    s3_told.count = answer->count;
    s3_told.more = answer->more;
    s3_told.detail = answer->detail;
    for (uint32_t at = 0; at < answer->count && at < 8; at++) {
        const struct ks_letter *const letter = &answer->letters[at];

        EXPECT_OK(ks_view_copy_text(letter->id, s3_told.ids[at], sizeof s3_told.ids[at]));
        EXPECT_OK(
            ks_view_copy_text(letter->reason, s3_told.reasons[at], sizeof s3_told.reasons[at]));
    }
    if (answer->count == 0)
        return;
    s3_told.first = answer->letters[0];
    EXPECT_OK(ks_view_copy_text(answer->letters[0].claim, s3_told.claim, sizeof s3_told.claim));
}

static void wait_for_requests(size_t count)
{
    const ks_instant begun = ks_instant_now();

    while (http_script_count(s3_script) < count) {
        ks_loop_turn(s3_loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 30 * 1000000);
    }
}

void s3_begin_with(const struct http_step *steps, size_t count, uint32_t attempts)
{
    const struct aws_rig_options options = {.attempts_max = attempts, .rules = &rules};
    struct ks_detail detail = {""};
    struct ks_s3_place place;

    s3_script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&s3_loop));
    rules = (struct ks_endpoint_rules){.service = "s3",
                                       .region = "us-east-1",
                                       .url = http_script_url(s3_script),
                                       .bucket = "bucket"};
    aws_rig_open_with(&aws, s3_loop, KS_AWS_S3, rules.url, &options);
    EXPECT_OK(ks_s3_place_read("s3://bucket/p?kms-key=key-1", &place, &detail));
    EXPECT_OK(ks_s3_letters_open(s3_loop, aws.client, &place, "app", KS_VIEW("demo"), &s3_store,
                                 &detail));
    s3_told.times = 0;
    wait_for_requests(1);
}

void s3_begin(const struct http_step *steps, size_t count)
{
    s3_begin_with(steps, count, 1);
}

void s3_finish(void)
{
    s3_store->vtable->close(s3_store);
    aws_rig_close(&aws);
    ks_loop_free(s3_loop);
    http_script_stop(s3_script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

void s3_await(uint32_t times)
{
    const ks_instant begun = ks_instant_now();

    while (s3_told.times < times) {
        ks_loop_turn(s3_loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 30 * 1000000);
    }
    EXPECT_EQ_U64(s3_told.times, times);
}

struct ks_letter s3_letter(const char *id, int second)
{
    return (struct ks_letter){
        .id = ks_view_text(id),
        .stream = KS_VIEW("demo"),
        .shard_id = KS_VIEW("s"),
        .sequence = ks_view_of(id + 2, 1),
        .sub_sequence = -1,
        .partition_key = KS_VIEW("k"),
        .data = KS_VIEW("data"),
        .reason = KS_VIEW("new"),
        .died_ms = INT64_C(1795219200000) + 1000 * second,
        .attempts = 2,
    };
}

enum ks_outcome s3_write(const char *id, int second)
{
    const uint32_t before = s3_told.times;
    const struct ks_letter letter = s3_letter(id, second);

    s3_store->vtable->write(s3_store, &letter, 1, s3_answered, NULL);
    EXPECT_EQ_U64(s3_told.times, before); /* Never inside the call. */
    s3_await(before + 1);
    return s3_told.outcome;
}

enum ks_outcome s3_claim(const char *id, const char *claim)
{
    const uint32_t before = s3_told.times;
    struct ks_letter letter = s3_letter(id, 59);

    letter.attempts = 1;
    letter.claim = ks_view_text(claim);
    s3_store->vtable->claim(s3_store, &letter, s3_answered, NULL);
    EXPECT_EQ_U64(s3_told.times, before);
    s3_await(before + 1);
    return s3_told.outcome;
}

enum ks_outcome s3_amend(const char *id, const char *claim)
{
    const uint32_t before = s3_told.times;
    struct ks_letter letter = s3_letter(id, 59);

    letter.claim = ks_view_text(claim);
    s3_store->vtable->amend(s3_store, &letter, s3_answered, NULL);
    s3_await(before + 1);
    return s3_told.outcome;
}

enum ks_outcome s3_list(const char *after, uint32_t most)
{
    const uint32_t before = s3_told.times;

    s3_store->vtable->list(s3_store, ks_view_text(after), most, s3_answered, NULL);
    s3_await(before + 1);
    return s3_told.outcome;
}

enum ks_outcome s3_find(const char *id)
{
    const uint32_t before = s3_told.times;

    s3_store->vtable->find(s3_store, ks_view_text(id), s3_answered, NULL);
    s3_await(before + 1);
    return s3_told.outcome;
}

enum ks_outcome s3_remove(const char *id, const char *claim)
{
    const uint32_t before = s3_told.times;

    s3_store->vtable->remove(s3_store, ks_view_text(id), ks_view_text(claim), s3_answered, NULL);
    s3_await(before + 1);
    return s3_told.outcome;
}
