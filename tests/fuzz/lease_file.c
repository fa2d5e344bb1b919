/* SPDX-License-Identifier: Apache-2.0 */
/* lease_file.c - any bytes as the SQLite file of the lease table: it is opened or refused with a sentence, each request
 * has its outcome, and nothing is kept.
 */
#include "adapters/asks.h"
#include "adapters/sqlite/table.h"
#include "base/budget.h"

#include "file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(struct ks_sqlite_table *table, const struct ks_store_request *request)
{
    struct ks_ask_work *work = ks_alloc(sizeof(*work));
    bool writes = ks_native_writes(request->operation);
    struct ks_detail detail = {""};
    ks_err err;

    work->operation = request->operation;
    work->outcome = KS_UNKNOWN;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(1000));
    err = writes ? ks_native_write(request, &work->write, &detail)
                 : ks_native_read(request, &work->partition, &work->keys);
    assert(ks_ok(err));
    ks_sqlite_table_perform(table, work);
    assert((work->outcome == KS_UNKNOWN) == !ks_ok(work->err));
    assert(work->outcome == KS_UNKNOWN || request->operation == KS_STORE_READ_LEASES ||
           work->rows.lease_count <= 1);
    ks_ask_work_free(work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ks_store_request requests[] = {
        {.operation = KS_STORE_READ_FLEET},
        {.operation = KS_STORE_READ_LEASES},
        {.operation = KS_STORE_READ_NEWS, .worker = {"pod-7", 0xC0FFEE00C0FFEE}},
        {.operation = KS_STORE_READ_WORKER, .worker = {"pod-7", 0xC0FFEE00C0FFEE}},
        {.operation = KS_STORE_READ_LEASE, .shard = "shardId-000000000002"},
        {.operation = KS_STORE_HEARTBEAT,
         .worker = {"pod-7", 0xC0FFEE00C0FFEE},
         .expect_beat = 1207},
        {.operation = KS_STORE_FENCE, .worker = {"pod-8", 1}, .expect_boot = 1, .expect_beat = 5},
    };
    struct ks_sqlite_table *table = NULL;
    struct ks_detail detail = {""};

    write_file(data, size);
    if (ks_ok(ks_sqlite_table_open(path, "app", &table, &detail))) {
        for (size_t at = 0; at < sizeof(requests) / sizeof(requests[0]); at++)
            ask(table, &requests[at]);
        ks_sqlite_table_close(table);
    } else {
        assert(detail.text[0] != '\0');
    }
    assert(ks_alloc_live() == 0);
    return 0;
}
