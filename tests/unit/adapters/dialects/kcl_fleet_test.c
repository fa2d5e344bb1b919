/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that KCL 3.4 and 3.5 were seen to write (tests/vectors/dialects), what they mean, and what we write. */
#include "adapters/dialects/kcl_fleet.h"

#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct ks_attribute attributes[] = {
    {"entityType", KS_VALUE_TEXT}, KS_KCL_COORDINATOR_ATTRIBUTES, KS_KCL_METRICS_ATTRIBUTES};
static const struct ks_schema single = {.attributes = attributes,
                                        .count = sizeof(attributes) / sizeof(attributes[0]),
                                        .key = "leaseKey"};

static struct ks_native_rows rows;

static void add(const struct ks_schema *schema, const struct ks_json *json)
{
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, 4096);
    EXPECT_OK(ks_dynamodb_read_item(json, schema, &texts, &item));
    EXPECT_OK(ks_kcl_fleet_add(&rows, &item));
    ks_bytes_free(&texts);
}

static void add_text(const struct ks_schema *schema, const char *text)
{
    struct ks_json *json = NULL;

    EXPECT_OK(ks_json_parse(ks_view_text(text), &json));
    add(schema, json);
    ks_json_free(json);
}

static void forget(void)
{
    ks_native_rows_free(&rows);
    rows = (struct ks_native_rows){.workers = NULL};
}

/* ---- What the libraries wrote ---- */

static char text[128 << 10];

static struct ks_json *vectors(const char *library)
{
    struct ks_json *json = NULL;
    char path[128];
    ssize_t size;
    int fd;

    (void)snprintf(path, sizeof(path), "tests/vectors/dialects/%s.json", library);
    fd = open(path, O_RDONLY);
    size = fd < 0 ? -1 : read(fd, text, sizeof(text));
    EXPECT(size > 0 && size < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)size), &json));
    return json;
}

static const struct ks_json *stage_of(const struct ks_json *library, const char *name)
{
    const struct ks_json *const stages = ks_json_member(library, "stages");

    for (size_t at = 0; at < ks_json_count(stages); at++) {
        const struct ks_json *const stage = ks_json_item(stages, at);
        ks_view word;

        EXPECT_OK(ks_json_text(ks_json_member(stage, "stage"), &word));
        if (ks_view_equal(word, ks_view_text(name)))
            return ks_json_member(stage, "tables");
    }
    EXPECT(false);
    return NULL;
}

/* Leases are no business of ours. */
static void add_rows(const struct ks_json *tables, const char *table,
                     const struct ks_schema *schema)
{
    const struct ks_json *const items = ks_json_member(tables, table);

    for (size_t at = 0; at < ks_json_count(items); at++)
        if (ks_json_member(ks_json_item(items, at), "leaseCounter") == NULL)
            add(schema, ks_json_item(items, at));
}

static void add_stage(const struct ks_json *library, const char *name)
{
    const struct ks_json *const tables = stage_of(library, name);

    forget();
    add_rows(tables, "", &single);
    add_rows(tables, KS_KCL_COORDINATOR_SUFFIX, &ks_kcl_coordinator_schema);
    add_rows(tables, KS_KCL_METRICS_SUFFIX, &ks_kcl_metrics_schema);
}

static void two_workers_of(const char *name)
{
    struct ks_json *const library = vectors(name);
    uint64_t leader;

    add_stage(library, "metrics of two workers");
    EXPECT(!rows.kcl.damaged);
    EXPECT_EQ_I64(rows.kcl.version, KS_KCL_3X);
    EXPECT_EQ_I64(rows.kcl.tables, KS_KCL_TABLES_UNSAID);
    EXPECT_EQ_I64(rows.kcl.leader_span.us, 6000000);
    EXPECT_EQ_I64(rows.worker_count, 2);
    for (uint32_t at = 0; at < 2; at++) {
        EXPECT(!rows.workers[at].damaged && !rows.workers[at].measured);
        EXPECT(strncmp(rows.workers[at].self.id, "worker-", 7) == 0);
        EXPECT(rows.workers[at].beat > 1795372000 && rows.workers[at].beat < 1795373000);
    }
    leader = rows.kcl.leader;
    add_stage(library, "moved");
    EXPECT(leader != 0 && rows.kcl.leader != 0 && rows.kcl.leader != leader);
    leader = rows.kcl.leader;
    /* Between these two its leader did not beat. */
    add_stage(library, "one stopped");
    leader = rows.kcl.leader;
    add_stage(library, "dead");
    EXPECT(rows.kcl.leader == leader);
    forget();
    ks_json_free(library);
}

TEST(rows_in_tables_of_their_own)
{
    two_workers_of("kcl34");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(rows_beside_leases)
{
    two_workers_of("kcl35");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_fleet_that_migrates_says_how_far_it_is)
{
    static const struct {
        const char *stage;
        enum ks_kcl_version version;
        bool leads;
        uint32_t workers;
    } stages[] = {
        {"in the manner of 2.x", KS_KCL_UPGRADE_FROM_2X, false, 0},
        {"metrics", KS_KCL_UPGRADE_FROM_2X, false, 1},
        {"in the manner of 3.x, and can go back", KS_KCL_3X_WITH_ROLLBACK, false, 1},
        {"a leader", KS_KCL_3X_WITH_ROLLBACK, true, 1},
        {"3.x", KS_KCL_3X, false, 1},
    };
    struct ks_json *const library = vectors("kcl35-migration");

    for (size_t at = 0; at < sizeof(stages) / sizeof(stages[0]); at++) {
        add_stage(library, stages[at].stage);
        EXPECT_EQ_I64(rows.kcl.version, stages[at].version);
        EXPECT_EQ_I64(rows.kcl.leader != 0, stages[at].leads);
        EXPECT_EQ_I64(rows.worker_count, stages[at].workers);
        EXPECT(!rows.kcl.damaged);
    }
    forget();
    ks_json_free(library);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* ---- Rows that nobody was seen to write ---- */

TEST(a_worker_says_its_cpu)
{
    add_text(&ks_kcl_metrics_schema,
             "{\"wid\":{\"S\":\"w1\"},\"lut\":{\"N\":\"1784600000\"},\"sts\":{\"M\":{\"C\":{\"L\":["
             "{\"N\":\"17.5\"},{\"N\":\"18.03125\"}]}}},\"opr\":{\"M\":{\"C\":{\"L\":[{\"N\":"
             "\"100\"}]}}}}");
    add_text(&single,
             "{\"leaseKey\":{\"S\":\"w2\"},\"entityType\":{\"S\":\"WORKER_METRIC_STATS\"},"
             "\"lut\":{\"N\":\"1784600001\"},\"sts\":{\"M\":{\"M\":{\"L\":[{\"N\":\"1\"}]},"
             "\"C\":{\"L\":[{\"N\":\"17.5\"},{\"N\":\"-1\"}]}}}}");
    add_text(&single, "{\"leaseKey\":{\"S\":\"w3\"},\"entityType\":{\"S\":\"WORKER_METRIC_STATS\"},"
                      "\"lut\":{\"S\":\"soon\"}}");
    EXPECT_EQ_I64(rows.worker_count, 3);
    EXPECT_STR(rows.workers[0].self.id, "w1");
    EXPECT(rows.workers[0].measured && rows.workers[0].mode == KS_ACTIVE);
    EXPECT_EQ_I64(rows.workers[0].beat, 1784600000);
    EXPECT(rows.workers[1].measured && rows.workers[1].mode == KS_FAILING);
    EXPECT(rows.workers[2].damaged);
    forget();
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_we_do_not_know_is_damage)
{
    static const char *const damaged[] = {
        "{\"key\":{\"S\":\"Migration3.0\"},\"cv\":{\"S\":\"CLIENT_VERSION_4X\"}}",
        "{\"key\":{\"S\":\"Migration3.0\"}}",
        "{\"key\":{\"S\":\"TableMigration3.5\"},\"tm\":{\"N\":\"1\"}}",
        "{\"key\":{\"S\":\"Leader\"},\"ownerName\":{\"S\":\"w1\"}}",
    };

    for (size_t at = 0; at < sizeof(damaged) / sizeof(damaged[0]); at++) {
        forget();
        add_text(&ks_kcl_coordinator_schema, damaged[at]);
        EXPECT(rows.kcl.damaged);
    }
    forget();
    add_text(&ks_kcl_coordinator_schema, "{\"key\":{\"S\":\"Something4.0\"}}");
    add_text(&single, "{\"leaseKey\":{\"S\":\"a:stream:1\"},\"entityType\":{\"S\":\"STREAM\"}}");
    EXPECT(!rows.kcl.damaged && rows.worker_count == 0);
    forget();
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(the_office_that_was_released_is_nobodys)
{
    add_text(&ks_kcl_coordinator_schema,
             "{\"key\":{\"S\":\"Leader\"},\"recordVersionNumber\":{\"S\":\"a\"},"
             "\"isReleased\":{\"S\":\"1\"},\"leaseDuration\":{\"S\":\"forever\"}}");
    EXPECT(rows.kcl.leader == 0 && !rows.kcl.damaged);
    EXPECT_EQ_I64(ks_span_to_ms(rows.kcl.leader_span), KS_KCL_LEADER_MS);
    add_text(&ks_kcl_coordinator_schema,
             "{\"key\":{\"S\":\"Leader\"},\"recordVersionNumber\":{\"S\":\"a\"},"
             "\"leaseDuration\":{\"S\":\"99999999999999\"}}");
    EXPECT(rows.kcl.leader != 0);
    EXPECT_EQ_I64(ks_span_to_ms(rows.kcl.leader_span), KS_KCL_LEADER_MS);
    forget();
}

TEST(who_leads_has_a_name)
{
    add_text(&ks_kcl_coordinator_schema,
             "{\"key\":{\"S\":\"Leader\"},\"recordVersionNumber\":{\"S\":\"a\"},"
             "\"ownerName\":{\"S\":\"w1\"}}");
    EXPECT_STR(rows.leader.holder.id, "w1");
    forget();
    add_text(&ks_kcl_coordinator_schema,
             "{\"key\":{\"S\":\"Leader\"},\"recordVersionNumber\":{\"S\":\"a\"},"
             "\"ownerName\":{\"S\":\"w1\"},\"isReleased\":{\"S\":\"1\"}}");
    EXPECT_STR(rows.leader.holder.id, "");
    forget();
}

/* ---- What we write ---- */

static void is_written(const struct ks_store_request *request, const char *expected)
{
    struct ks_item_write write;
    struct ks_bytes body;

    EXPECT_OK(ks_kcl_metrics_write(request, &write));
    EXPECT(ks_item_write_may_create(&write) == (request->expect_beat == 0));
    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_write(&body, "app", &write, false));
    EXPECT_OK(ks_bytes_append_byte(&body, '\0'));
    EXPECT(strstr((const char *)body.data, expected) != NULL);
    ks_bytes_free(&body);
    ks_item_write_free(&write);
}

TEST(our_row_says_what_others_say)
{
    static const uint32_t cpu[] = {17500, KS_CPU_NONE, 3, 100000};
    struct ks_store_request request = {.operation = KS_STORE_HEARTBEAT,
                                       .worker = {.id = "pod-7"},
                                       .next_rev = 1784600000,
                                       .together = false,
                                       .measured = true,
                                       .cpu = cpu,
                                       .cpu_count = 4};

    is_written(&request, "\"Key\":{\"wid\":{\"S\":\"pod-7\"}}");
    is_written(&request,
               "{\"M\":{\"C\":{\"L\":[{\"N\":\"17.500\"},{\"N\":\"-1\"},{\"N\":\"0.003\"},"
               "{\"N\":\"100.000\"}]}}}");
    is_written(&request, "{\"M\":{\"C\":{\"L\":[{\"N\":\"100\"}]}}}");
    is_written(&request, "{\"N\":\"1784600000\"}");
    is_written(&request, "(attribute_not_exists(#entityType) OR #entityType = :c0)"
                         " AND attribute_not_exists(#leaseCounter)");
    request.expect_beat = 1784599970;
    is_written(&request, "attribute_exists(#lut) AND");
    request.measured = false;
    request.together = true;
    is_written(&request, "\"Key\":{\"leaseKey\":{\"S\":\"pod-7\"}}");
    is_written(&request, ":{\"M\":{}},");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(our_row_is_no_other_row)
{
    static const char *const ids[] = {"Leader", "Migration3.0", "TableMigration3.5",
                                      "shardId-000000000000"};
    struct ks_store_request request = {.operation = KS_STORE_HEARTBEAT};
    struct ks_item_write write;

    for (size_t at = 0; at < sizeof(ids) / sizeof(ids[0]); at++) {
        memcpy(request.worker.id, ids[at], strlen(ids[at]) + 1);
        request.together = true;
        EXPECT_ERR(ks_kcl_metrics_write(&request, &write), INVALID);
        ks_item_write_free(&write);
        request.together = false;
        EXPECT_OK(ks_kcl_metrics_write(&request, &write));
        ks_item_write_free(&write);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_read_asks_for_three_rows)
{
    struct ks_item_keys keys;

    EXPECT_OK(ks_kcl_fleet_keys(&keys));
    EXPECT_EQ_I64(keys.count, 3);
    EXPECT_STR(keys.texts[0], "Leader");
    EXPECT_STR(keys.texts[1], "Migration3.0");
    EXPECT_STR(keys.texts[2], "TableMigration3.5");
}
