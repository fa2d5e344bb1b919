/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include "base/limits.h"

#include "docs.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_bytes page;

static const char *render(void)
{
    ks_bytes_init(&page, 1 << 20);
    EXPECT_OK(ks_metrics_render(&page));
    EXPECT(ks_view_is_utf8(ks_bytes_view(&page)));
    EXPECT_OK(ks_bytes_append_byte(&page, '\0'));
    return (const char *)page.data;
}

TEST(a_counter_is_shown_with_its_help_and_type)
{
    ks_metric_add(KS_METRIC_RECORDS_PUT, 2);
    ks_metric_add(KS_METRIC_RECORDS_PUT, 5);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_RECORDS_PUT), 7);
    EXPECT_CONTAINS(render(), "\n# HELP kinesis_sidecar_records_put_total "
                              "Records put into the local stream.\n"
                              "# TYPE kinesis_sidecar_records_put_total counter\n"
                              "kinesis_sidecar_records_put_total 7\n");
    EXPECT_CONTAINS((const char *)page.data, "\nkinesis_sidecar_loop_turns_total 0\n");
    ks_bytes_free(&page);
}

TEST(a_gauge_goes_up_and_down)
{
    ks_metric_set(KS_METRIC_CONNECTIONS, 10);
    ks_metric_add(KS_METRIC_CONNECTIONS, -12);
    EXPECT_CONTAINS(render(), "# TYPE kinesis_sidecar_connections gauge\n"
                              "kinesis_sidecar_connections -2\n");
    ks_bytes_free(&page);
}

TEST(seconds_are_shown_with_all_their_places)
{
    ks_metric_set_labelled(KS_METRIC_LEASE_DEADLINE_SECONDS, "s", -1250);
    ks_metric_set(KS_METRIC_START_TIME_SECONDS, 9007);
    ks_metric_set(KS_METRIC_LOOP_TURN_LONGEST, 1000042);
    EXPECT_CONTAINS(render(),
                    "\nkinesis_sidecar_lease_deadline_seconds{subscription=\"s\"} -1.250\n");
    EXPECT_CONTAINS((const char *)page.data, "\nkinesis_sidecar_start_time_seconds 9.007\n");
    EXPECT_CONTAINS((const char *)page.data,
                    "\nkinesis_sidecar_loop_turn_longest_seconds 1.000042\n");
    ks_bytes_free(&page);
}

struct kept {
    struct ks_metric_keeper keeper;
    const char *shards[3];
};

static bool kept_number(struct ks_metric_keeper *keeper, enum ks_metric metric, uint32_t index,
                        const char **ret_shard, int64_t *ret_number)
{
    struct kept *kept = KS_LIST_ENTRY(keeper, struct kept, keeper);

    if (index >= 3)
        return false;
    *ret_shard = kept->shards[index];
    *ret_number = metric == KS_METRIC_SHARD_READS ? 10 * (int64_t)index : -1;
    return true;
}

TEST(numbers_of_shards_are_asked_for_when_they_are_shown)
{
    struct kept one = {.keeper = {.subscription = "orders", .number = kept_number},
                       .shards = {"a", NULL, "c\""}};
    struct kept other = {.keeper = {.subscription = "clicks", .number = kept_number},
                         .shards = {"z", NULL, NULL}};

    ks_metrics_join(&one.keeper);
    ks_metrics_join(&other.keeper);
    EXPECT_CONTAINS(
        render(), "# TYPE kinesis_sidecar_shard_reads_total counter\n"
                  "kinesis_sidecar_shard_reads_total{subscription=\"orders\",shard=\"a\"} 0\n"
                  "kinesis_sidecar_shard_reads_total{subscription=\"orders\",shard=\"c\\\"\"} 20\n"
                  "kinesis_sidecar_shard_reads_total{subscription=\"clicks\",shard=\"z\"} 0\n#");
    ks_bytes_free(&page);

    ks_metrics_leave(&one.keeper);
    ks_metrics_leave(&other.keeper);
    EXPECT(strstr(render(), "kinesis_sidecar_shard_") == NULL);
    ks_bytes_free(&page);
}

TEST(each_subscription_begins_at_nothing)
{
    ks_metrics_begin("orders");
    ks_metrics_begin("clicks");
    ks_metrics_begin("orders");
    ks_metric_add_labelled(KS_METRIC_RECORDS_ACKED, "clicks", 3);
    ks_metric_add_labelled(KS_METRIC_RECORDS_ACKED, "orders", 1);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_RECORDS_ACKED), 4);
    EXPECT_CONTAINS(render(), "kinesis_sidecar_records_acked_total{subscription=\"orders\"} 1\n"
                              "kinesis_sidecar_records_acked_total{subscription=\"clicks\"} 3\n");
    EXPECT_CONTAINS((const char *)page.data,
                    "kinesis_sidecar_leases_held{subscription=\"orders\"} 0\n"
                    "kinesis_sidecar_leases_held{subscription=\"clicks\"} 0\n#");
    ks_bytes_free(&page);
}

TEST(each_value_of_a_label_has_its_number)
{
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, "200", 3);
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, "404", 1);
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, "200", 1);
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, "20", 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_HTTP_REQUESTS, "200"), 4);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_HTTP_REQUESTS, "500"), 0);
    EXPECT_CONTAINS(render(), "# TYPE kinesis_sidecar_http_requests_total counter\n"
                              "kinesis_sidecar_http_requests_total{code=\"200\"} 4\n"
                              "kinesis_sidecar_http_requests_total{code=\"404\"} 1\n"
                              "kinesis_sidecar_http_requests_total{code=\"20\"} 1\n");
    ks_bytes_free(&page);
}

TEST(values_of_labels_are_escaped)
{
    ks_metric_set_labelled(KS_METRIC_BUILD_INFO, "a\"b\\c\nd", 1);
    EXPECT_CONTAINS(render(), "kinesis_sidecar_build_info{version=\"a\\\"b\\\\c\\nd\"} 1\n");
    ks_bytes_free(&page);
}

TEST(a_label_has_few_values_and_the_rest_are_one)
{
    char value[16];

    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof(value), "op-%d", i);
        ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, value, 1);
        ks_metric_add_pair(KS_METRIC_AWS_REQUESTS, value, "x", 1);
    }
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_HTTP_REQUESTS, "op-38"), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_HTTP_REQUESTS, "other"), 61);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_HTTP_REQUESTS), 100);
    EXPECT_CONTAINS(render(), "{code=\"other\"} 61\n");
    EXPECT_CONTAINS((const char *)page.data, "{service=\"other\",operation=\"other\"} 61\n");
    ks_bytes_free(&page);
}

TEST(each_subscription_has_as_many_values_of_a_second_label)
{
    char subscription[16];
    char operation[16];

    for (int i = 0; i < KS_SUBSCRIPTIONS_MAX; i++) {
        snprintf(subscription, sizeof(subscription), "sub-%d", i);
        ks_metrics_begin(subscription);
        for (int j = 0; j < 30; j++) {
            snprintf(operation, sizeof(operation), "op-%d", j);
            ks_metric_add_pair(KS_METRIC_STORE_REQUESTS, subscription, operation, i);
        }
    }
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_STORE_REQUESTS, "other"), 0);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_STORE_REQUESTS, "sub-31,op-29"), 31);
    EXPECT_CONTAINS(
        render(),
        "kinesis_sidecar_store_requests_total{subscription=\"sub-7\",operation=\"op-3\"} 7\n");
    ks_bytes_free(&page);
}

TEST(what_no_place_is_left_for_is_counted_all_the_same)
{
    char value[16];

    for (int i = 0; i < 10 * KS_METRIC_SERIES_MAX; i++) {
        snprintf(value, sizeof(value), "%d", i % 2000);
        ks_metric_add_labelled((enum ks_metric)(KS_METRIC_RECORDS_RECEIVED + i % 2), value, 1);
    }
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_RECORDS_RECEIVED), 5 * KS_METRIC_SERIES_MAX);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_RECORDS_RECEIVED_BYTES), 5 * KS_METRIC_SERIES_MAX);
}

TEST(two_labels_have_their_values_in_order)
{
    ks_metric_add_pair(KS_METRIC_AWS_REQUESTS, "kinesis", "GetRecords", 3);
    ks_metric_add_pair(KS_METRIC_AWS_REQUESTS, "dynamodb", "GetItem", 1);
    EXPECT_CONTAINS(render(), "# TYPE kinesis_sidecar_aws_requests_total counter\n"
                              "kinesis_sidecar_aws_requests_total{service=\"kinesis\",operation="
                              "\"GetRecords\"} 3\n"
                              "kinesis_sidecar_aws_requests_total{service=\"dynamodb\",operation="
                              "\"GetItem\"} 1\n");
    ks_bytes_free(&page);
}

TEST(the_last_of_two_values_may_be_long_and_have_commas)
{
    static const char role[] =
        "123456789012/a-role,which-has-a-name-of-64-characters-and-some-are-commas,";

    ks_metric_set_pair(KS_METRIC_AWS_CREDENTIALS_EXPIRY, "kinesis", role, 2000);
    ks_metric_set_pair(KS_METRIC_AWS_CREDENTIALS_EXPIRY, "kinesis", role, 3000);
    ks_metric_set_pair(KS_METRIC_AWS_CREDENTIALS_EXPIRY, "kinesis", "none", 1000);
    EXPECT_CONTAINS(render(),
                    "{service=\"kinesis\",role=\"123456789012/"
                    "a-role,which-has-a-name-of-64-characters-and-some-are-commas,\"} 3.000\n"
                    "kinesis_sidecar_aws_credentials_expiry_timestamp_seconds{service=\"kinesis\","
                    "role=\"none\"} 1.000\n");
    ks_bytes_free(&page);
}

#define SECONDS(suffix, le)                                                                        \
    "kinesis_sidecar_aws_request_duration_seconds" suffix                                          \
    "{service=\"kinesis\",operation=\"GetRecords\"" le "}"

TEST(a_histogram_counts_up_to_each_bound)
{
    static const int64_t observed_us[] = {0, 1000, 1001, 100000, 100001, 9999999, 10000001};

    for (size_t i = 0; i < sizeof(observed_us) / sizeof(observed_us[0]); i++)
        ks_metric_observe_pair(KS_METRIC_AWS_REQUEST_SECONDS, "kinesis", "GetRecords",
                               observed_us[i]);
    EXPECT_CONTAINS(
        render(),
        "# TYPE kinesis_sidecar_aws_request_duration_seconds histogram\n" SECONDS(
            "_bucket", ",le=\"0.001\"") " 2\n" SECONDS("_bucket", ",le=\"0.0025\"") " 3\n");
    EXPECT_CONTAINS((const char *)page.data, SECONDS("_bucket", ",le=\"0.1\"") " 4\n" SECONDS(
                                                 "_bucket", ",le=\"0.25\"") " 5\n");
    EXPECT_CONTAINS(
        (const char *)page.data,
        SECONDS("_bucket", ",le=\"10\"") " 6\n" SECONDS("_bucket", ",le=\"+Inf\"") " 7\n" SECONDS(
            "_sum", "") " 20.202002\n" SECONDS("_count", "") " 7\n");
    ks_bytes_free(&page);
}

TEST(a_long_value_is_cut_at_a_character_and_stays_one_value)
{
    /* 38 bytes, then a character of three. */
    const char *value = "0123456789012345678901234567890123456\xE2\x82\xAC\xE2\x82\xAC";

    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, value, 1);
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, value, 1);
    EXPECT_CONTAINS(render(), "{code=\"0123456789012345678901234567890123456\"} 2\n");
    ks_bytes_free(&page);
}

TEST(a_page_that_does_not_fit_says_so)
{
    struct ks_bytes small;

    ks_bytes_init(&small, 100);
    EXPECT(ks_err_is(ks_metrics_render(&small), KS_ERR_FULL));
    EXPECT(ks_err_is(ks_metrics_markdown(&small), KS_ERR_FULL));
    ks_bytes_free(&small);
}

TEST(the_docs_know_every_metric)
{
    struct ks_bytes table;

    ks_bytes_init(&table, 1 << 20);
    EXPECT_OK(ks_metrics_markdown(&table));
    EXPECT_OK(ks_bytes_append_byte(&table, '\0'));
#define X(id, name, type, unit, label, sentence)                                                   \
    EXPECT_CONTAINS((const char *)table.data, "| `kinesis_sidecar_" name "` | ");                  \
    EXPECT_CONTAINS((const char *)table.data, " | " sentence " |\n");
#include "base/metrics.def"
#undef X
    ks_bytes_free(&table);
}

static void expect_custom(const char *name, bool counter)
{
    size_t size = strlen(name);

    EXPECT((size > 6 && strcmp(name + size - 6, "_total") == 0) == counter);
    EXPECT_EQ_U64(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), size);
}

/* Prometheus wants counters, and nothing else, to end in _total. */
TEST(names_follow_the_custom_of_prometheus)
{
    enum { COUNTER, GAUGE, HISTOGRAM };
#define X(id, name, type, unit, label, sentence) expect_custom(name, (type) == COUNTER);
#include "base/metrics.def"
#undef X
}

TEST(the_table_of_the_docs_is_the_codes_own)
{
    docs_expect_table("docs/METRICS.md", ks_metrics_markdown);
}
