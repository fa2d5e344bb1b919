/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/dead_letters_dynamodb.h"

#include "adapters/dynamodb/letters.h"
#include "base/digest.h"
#include "contract/letters_faults.h"

#include "aws_rig.h"

#include <stdio.h>
#include <unistd.h>

static struct aws_rig aws;

static void set_up(void)
{
    aws_rig_open(&aws, letters_loop, KS_AWS_DYNAMODB,
                 letters_faults_url(ks_test_env("KS_DYNAMODB_URL")));
}

const char *letters_dynamodb_table(void)
{
    static char name[64];

    if (name[0] == '\0')
        (void)snprintf(name, sizeof name, "letters-%d-%016llx", (int)getpid(),
                       (unsigned long long)ks_random_u64());
    return name;
}

/* A list answers nothing before the table is there. */
static void await_table(struct ks_dead_letters *store)
{
    const ks_instant begun = ks_instant_now();
    struct ks_dead_letters *const other = letters_store;
    const bool rested = letters_faults_rest(true);

    letters_store = store;
    while (letters_list("", 1) != KS_DONE)
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    letters_store = other;
    (void)letters_faults_rest(rested);
}

static ks_err open_table(struct ks_dead_letters **ret_store, struct ks_detail *ret_detail)
{
    KS_TRY(ks_dynamodb_letters_open(letters_loop, aws.client, letters_dynamodb_table(), NULL,
                                    ret_store, ret_detail));
    await_table(*ret_store);
    return KS_OK;
}

static void raw_done(void *arg, const struct ks_aws_answer *answer)
{
    bool *const done = arg;

    if (!ks_ok(answer->err))
        FAIL("%s", answer->detail.text);
    *done = true;
}

void letters_dynamodb_raw(const char *operation, const char *body)
{
    bool done = false;
    const struct ks_aws_request request = {.operation = operation,
                                           .body = ks_view_text(body),
                                           .timeout = ks_span_ms(30000),
                                           .response_max = 1 << 20,
                                           .done = raw_done,
                                           .arg = &done};

    EXPECT_OK(ks_aws_call(aws.client, &request, NULL));
    while (!done)
        ks_loop_turn(letters_loop, ks_span_ms(20));
}

static void tear_down(void)
{
    aws_rig_close(&aws);
}

/* Claims it once more, as if it were a second past 1970. */
static void end_claim(const char *sequence, const char *claim)
{
    struct ks_letter letter = letters_make(sequence, 0);
    struct ks_letter_place place;
    struct ks_bytes body;

    letter.claim = ks_view_text(claim);
    ks_bytes_init(&body, 1 << 16);
    EXPECT_OK(ks_letter_place_of(letter.id, NULL, &place));
    EXPECT_OK(ks_letter_put_claim(&body, letters_dynamodb_table(), &place, &letter, 1000));
    EXPECT_OK(ks_bytes_append(&body, ks_view_of("", 1)));
    letters_dynamodb_raw("UpdateItem", (const char *)body.data);
    ks_bytes_free(&body);
}

const struct letters_adapter letters_dynamodb = {.name = "dynamodb",
                                                 .pointers = true,
                                                 .throttle = "400 ThrottlingException",
                                                 .set_up = set_up,
                                                 .open = open_table,
                                                 .tear_down = tear_down,
                                                 .end_claim = end_claim};
