/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/dead_letters_s3.h"

#include "adapters/s3/letters.h"
#include "aws/endpoint.h"
#include "base/digest.h"
#include "contract/letters_faults.h"

#include "aws_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct aws_rig aws;
static struct ks_endpoint_rules rules;
static struct ks_s3_place place;
static char object[64 << 10];

static const char *bucket(void)
{
    static char name[KS_BUCKET_MAX + 1];

    if (name[0] == '\0')
        (void)snprintf(name, sizeof name, "letters-%d-%016llx", (int)getpid(),
                       (unsigned long long)ks_random_u64());
    return name;
}

/* ---- Behind the store ---- */

struct raw {
    bool done;
    int status;
};

static void raw_done(void *arg, const struct ks_aws_answer *answer)
{
    struct raw *const raw = arg;

    raw->done = true;
    raw->status = answer->status;
    (void)snprintf(object, sizeof object, "%.*s", (int)answer->body.size,
                   answer->body.data == NULL ? "" : (const char *)answer->body.data);
}

/* Performs a request, and returns its status. */
static int perform(const char *method, const char *key, const char *body)
{
    /* moto stores no body that has the type which libcurl adds, that of forms. */
    const struct ks_http_header type = {KS_VIEW("Content-Type"), KS_VIEW("application/json")};
    const struct ks_aws_rest rest = {
        .method = method, .path = ks_view_text(key), .headers = &type, .header_count = 1};
    struct raw raw = {.done = false};
    const struct ks_aws_request request = {.operation = "Raw",
                                           .rest = &rest,
                                           .body = ks_view_text(body),
                                           .timeout = ks_span_ms(10000),
                                           .response_max = 1 << 20,
                                           .done = raw_done,
                                           .arg = &raw};

    EXPECT_OK(ks_aws_call(aws.client, &request, NULL));
    while (!raw.done)
        ks_loop_turn(letters_loop, ks_span_ms(20));
    return raw.status;
}

void letters_s3_put(const char *key, const char *body)
{
    EXPECT_EQ_I64(perform(body == NULL ? "DELETE" : "PUT", key, body == NULL ? "" : body) / 100, 2);
}

const char *letters_s3_get(const char *key)
{
    const int status = perform("GET", key, "");

    EXPECT(status == 200 || status == 404);
    return status == 200 ? object : "";
}

/* ---- The rig ---- */

static void set_up(void)
{
    const char *const versitygw = getenv("KS_S3_URL");
    char url[128];
    int status;

    rules = (struct ks_endpoint_rules){
        .service = "s3",
        .region = "us-east-1",
        .url = letters_faults_url(versitygw != NULL ? versitygw : ks_test_env("KS_MOTO_URL")),
        .bucket = bucket(),
    };
    aws_rig_open_with(&aws, letters_loop, KS_AWS_S3, rules.url,
                      &(struct aws_rig_options){.rules = &rules});
    (void)snprintf(url, sizeof url, "s3://%s/letters", bucket());
    EXPECT_OK(ks_s3_place_read(url, &place, &letters_why));
    status = perform("PUT", "", "");
    EXPECT(status == 200 || status == 409); /* The bucket is there since an earlier rig. */
}

static ks_err open_bucket(struct ks_dead_letters **ret_store, struct ks_detail *ret_detail)
{
    return ks_s3_letters_open(letters_loop, aws.client, &place, "app", KS_VIEW("demo"), ret_store,
                              ret_detail);
}

static void tear_down(void)
{
    aws_rig_close(&aws);
}

/* Writes the object anew with an instant in the past. */
static void end_claim(const char *sequence, const char *claim)
{
    static char changed[sizeof object];
    char key[KS_S3_KEY_MAX + 1];
    char *until;

    EXPECT_OK(ks_letter_key_put(LETTERS_S3_FOLDER, ks_view_text(letters_id(sequence)), key));
    (void)snprintf(changed, sizeof changed, "%s", letters_s3_get(key));
    EXPECT_CONTAINS(changed, claim);
    until = strstr(changed, "\"claimed_until\":\"20");
    EXPECT(until != NULL);
    memcpy(until + strlen("\"claimed_until\":\""), "1970", 4);
    letters_s3_put(key, changed);
}

const struct letters_adapter letters_s3 = {.name = "s3",
                                           .throttle = "503 SlowDown",
                                           .set_up = set_up,
                                           .open = open_bucket,
                                           .tear_down = tear_down,
                                           .end_claim = end_claim};
