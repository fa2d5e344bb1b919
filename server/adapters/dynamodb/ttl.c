/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/ttl.h"

#include "aws/json.h"
#include "base/json_writer.h"
#include "base/log.h"

enum { CALL_MS = 5000, BODY_MAX = 4096, ANSWER_MAX = 64 << 10 };

#define ATTRIBUTE "expires"

static void post(struct ks_dynamodb_ttl *ttl, const char *operation, bool turn_on,
                 void (*done)(void *arg, const struct ks_aws_answer *answer))
{
    struct ks_bytes body;
    struct ks_writer json;
    ks_err err;

    ks_bytes_init(&body, BODY_MAX);
    ks_writer_begin_strict(&json, &body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", ks_view_text(ttl->table));
    if (turn_on) {
        ks_writer_key(&json, "TimeToLiveSpecification");
        ks_writer_open(&json, '{');
        ks_writer_key(&json, "Enabled");
        ks_writer_bool(&json, true);
        ks_writer_pair(&json, "AttributeName", KS_VIEW(ATTRIBUTE));
        ks_writer_close(&json, '}');
    }
    ks_writer_close(&json, '}');
    err = ks_writer_end(&json);
    if (ks_ok(err)) {
        const struct ks_aws_request request = {
            .operation = operation,
            .body = ks_bytes_view(&body),
            .timeout = ks_span_ms(CALL_MS),
            .single_attempt = true,
            .response_max = ANSWER_MAX,
            .done = done,
            .arg = ttl,
        };

        err = ks_aws_call(ttl->client, &request, &ttl->call);
    }
    ks_bytes_free(&body);
    ttl->asked = ks_ok(err); /* Else the next time. */
}

static void updated(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_dynamodb_ttl *const ttl = arg;

    ttl->call = NULL;
    if (ks_ok(answer->err))
        ks_info("table %s: its TTL removes what expired from now on", ttl->table);
    else
        ks_warn("table %s: expired dead letters stay, because its TTL is off and was not turned on "
                "(%s); turn it on for the attribute " ATTRIBUTE,
                ttl->table, answer->detail.text);
}

/* A member of the description; "" if there is none. */
static ks_view member(const struct ks_json *document, const char *name)
{
    ks_view text = KS_VIEW("");

    if (!ks_ok(ks_json_text(ks_json_member(ks_json_member(document, "TimeToLiveDescription"), name),
                            &text)))
        return KS_VIEW("");
    return text;
}

static void judge(struct ks_dynamodb_ttl *ttl, const struct ks_json *document)
{
    /* ENABLED, ENABLING; DISABLED, DISABLING. */
    const bool is_on = ks_view_starts(member(document, "TimeToLiveStatus"), KS_VIEW("ENABL"));

    if (!is_on)
        post(ttl, "UpdateTimeToLive", true, updated);
    else if (!ks_view_equal(member(document, "AttributeName"), KS_VIEW(ATTRIBUTE)))
        ks_warn("table %s: expired dead letters stay, because its TTL is on for another attribute "
                "than " ATTRIBUTE,
                ttl->table);
}

static void described(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_dynamodb_ttl *const ttl = arg;
    struct ks_json *document = NULL;

    ttl->call = NULL;
    if (ks_ok(answer->err) && ks_ok(ks_json_parse(answer->body, &document)))
        judge(ttl, document);
    else
        ks_warn("table %s: expired dead letters may stay, because its TTL is not known (%s)",
                ttl->table, answer->detail.text);
    ks_json_free(document);
}

void ks_dynamodb_ttl_init(struct ks_dynamodb_ttl *ttl, struct ks_aws_client *client,
                          const char *table)
{
    *ttl = (struct ks_dynamodb_ttl){.client = client, .table = table};
}

void ks_dynamodb_ttl_ask(struct ks_dynamodb_ttl *ttl)
{
    if (!ttl->asked)
        post(ttl, "DescribeTimeToLive", false, described);
}

void ks_dynamodb_ttl_close(struct ks_dynamodb_ttl *ttl)
{
    if (ttl->call != NULL)
        ks_aws_cancel(ttl->call);
    ttl->call = NULL;
}
