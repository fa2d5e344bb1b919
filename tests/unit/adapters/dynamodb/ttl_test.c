/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/ttl.h"

#include "base/log.h"
#include "ks_test.h"

#include "aws_rig.h"
#include "http_script.h"

#define STATUS(status) "{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"" status "\"}}"
#define ON_FOR(attribute)                                                                          \
    "{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"ENABLED\",\"AttributeName\":\"" attribute  \
    "\"}}"
#define ERROR(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"message\":\"m\"}"

static struct ks_loop *loop;
static struct aws_rig aws;
static struct http_script *script;
static struct ks_dynamodb_ttl ttl;

/* Asks twice; waits until that many requests came, and a moment more. */
static void ask(const struct http_step *steps, size_t count, size_t requests)
{
    const ks_instant begun = ks_instant_now();

    script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open(&aws, loop, KS_AWS_DYNAMODB, http_script_url(script));
    ks_dynamodb_ttl_init(&ttl, aws.client, "leases");
    ks_dynamodb_ttl_ask(&ttl);
    while (http_script_count(script) < requests || ttl.call != NULL) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
    ks_dynamodb_ttl_ask(&ttl);
    EXPECT(ttl.call == NULL);
    EXPECT_EQ_U64(http_script_count(script), requests);
    ks_dynamodb_ttl_close(&ttl);
    aws_rig_close(&aws);
    ks_loop_free(loop);
}

TEST(one_that_is_off_is_turned_on)
{
    static const struct http_step steps[] = {{.body = STATUS("DISABLED")}, {.body = "{}"}};

    ask(steps, 2, 2);
    EXPECT_CONTAINS(http_script_request(script, 0), "DynamoDB_20120810.DescribeTimeToLive");
    EXPECT_CONTAINS(http_script_request(script, 1), "DynamoDB_20120810.UpdateTimeToLive");
    EXPECT_CONTAINS(http_script_request(script, 1),
                    "{\"TableName\":\"leases\",\"TimeToLiveSpecification\":{\"Enabled\":true,"
                    "\"AttributeName\":\"expires\"}}");
    http_script_stop(script);
}

TEST(one_that_is_on_is_left_as_it_is)
{
    static const struct http_step ours[] = {{.body = ON_FOR("expires")}};
    static const struct http_step others[] = {{.body = ON_FOR("ttl")}};

    ask(ours, 1, 1);
    http_script_stop(script);
    ask(others, 1, 1);
    http_script_stop(script);
}

TEST(what_may_not_be_asked_or_makes_no_sense_is_asked_once)
{
    static const struct http_step denied[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")}};
    static const struct http_step refused[] = {
        {.body = STATUS("DISABLED")}, {.status = 400, .body = ERROR("AccessDeniedException")}};
    static const struct http_step nonsense[] = {{.body = "{\"TimeToLiveDescription\":"}};

    ask(denied, 1, 1);
    http_script_stop(script);
    ask(refused, 2, 2);
    http_script_stop(script);
    ask(nonsense, 1, 1);
    http_script_stop(script);
}

TEST(it_is_closed_while_it_asks)
{
    static const struct http_step steps[] = {{.silent = true}};

    script = http_script_start(steps, 1);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open(&aws, loop, KS_AWS_DYNAMODB, http_script_url(script));
    ks_dynamodb_ttl_init(&ttl, aws.client, "leases");
    ks_dynamodb_ttl_ask(&ttl);
    ks_loop_turn(loop, ks_span_ms(20));
    ks_dynamodb_ttl_close(&ttl);
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
}
