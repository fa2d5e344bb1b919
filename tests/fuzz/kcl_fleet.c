/* SPDX-License-Identifier: Apache-2.0 */
/* kcl_fleet.c - any item as DynamoDB answers it, read as a row about a fleet of KCL 3.x, of each layout.
 */
#include "adapters/dialects/kcl_fleet.h"
#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "aws/limits.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ks_attribute attributes[] = {
    {"entityType", KS_VALUE_TEXT}, KS_KCL_COORDINATOR_ATTRIBUTES, KS_KCL_METRICS_ATTRIBUTES};
static const struct ks_schema single = {.attributes = attributes,
                                        .count = sizeof(attributes) / sizeof(attributes[0]),
                                        .key = "leaseKey"};

static void read_as(const struct ks_json *json, const struct ks_schema *schema)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, KS_JSON_BYTES_MAX);
    if (ks_ok(ks_dynamodb_read_item(json, schema, &texts, &item)) &&
        ks_ok(ks_kcl_fleet_add(&rows, &item))) {
        assert(rows.lease_count == 0 && rows.worker_count <= 1);
        assert(rows.worker_count == 0 || rows.kcl.leader == 0);
        assert(rows.kcl.leader == 0 || rows.kcl.leader_span.us >= 1000000);
    }
    ks_native_rows_free(&rows);
    ks_bytes_free(&texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_json *json = NULL;

    if (!ks_ok(ks_json_parse(ks_view_of(data, size), &json)))
        return 0;
    read_as(json, &ks_kcl_coordinator_schema);
    read_as(json, &ks_kcl_metrics_schema);
    read_as(json, &single);
    ks_json_free(json);
    return 0;
}
