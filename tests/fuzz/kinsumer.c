/* SPDX-License-Identifier: Apache-2.0 */
/* kinsumer.c - any item of kinsumer's tables, as JSON behind a byte that names the table: it is read, damaged or
 * refused. */
#include "adapters/dialects/kinsumer.h"
#include "adapters/dynamodb/wire.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct ks_native_rows *rows)
{
    assert(rows->lease_count + rows->worker_count <= 1);
    for (uint32_t at = 0; at < rows->lease_count; at++) {
        const struct ks_store_lease *const lease = &rows->leases[at];

        assert(lease->damaged || lease->rev <= INT64_MAX);
        assert(lease->damaged || !lease->finished ||
               lease->checkpoint.kind == KS_POSITION_SHARD_END);
        assert(lease->damaged || lease->finished ||
               lease->checkpoint.kind != KS_POSITION_SHARD_END);
    }
    for (uint32_t at = 0; at < rows->worker_count; at++)
        assert(rows->workers[at].self.id[0] != '\0' && !rows->workers[at].damaged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ks_dialect *const dialect = &ks_kinsumer_dialect;
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_json *document = NULL;
    struct ks_detail detail;
    struct ks_bytes texts;
    struct ks_item item;
    uint32_t table;

    if (size == 0 || !ks_ok(ks_json_parse(ks_view_of(data + 1, size - 1), &document)))
        return 0;
    table = data[0] % dialect->table_count;
    ks_bytes_init(&texts, 1 << 20);
    if (ks_ok(ks_dynamodb_read_item(document, dialect->tables[table].schema, &texts, &item)) &&
        ks_ok(dialect->add(&rows, &item, &detail)))
        judge(&rows);
    ks_native_rows_free(&rows);
    ks_bytes_free(&texts);
    ks_json_free(document);
    return 0;
}
