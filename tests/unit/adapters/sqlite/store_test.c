/* SPDX-License-Identifier: Apache-2.0 */
/* How a store opens and closes; the rest is in tests/contract. */
#include "adapters/sqlite/store.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stddef.h>

static int answers;
static ks_err last;

static void answered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    (void)arg;
    (void)token;
    answers++;
    last = answer->err;
}

static struct ks_store_request registration(void)
{
    return (struct ks_store_request){.operation = KS_STORE_REGISTER_NEW,
                                     .worker = {"a", 1},
                                     .timeout = ks_span_ms(5000),
                                     .answered = answered};
}

TEST(a_file_that_cannot_be_opened_is_told_by_open)
{
    struct ks_lease_store *store = NULL;
    struct ks_detail detail = {""};
    struct ks_loop *loop;

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT(ks_err_is(ks_sqlite_store_open(loop, ks_test_path("nowhere/leases.db"), "app", NULL,
                                          NULL, &store, &detail),
                     KS_ERR_SYSTEM));
    EXPECT_CONTAINS(detail.text, "nowhere/leases.db");
    EXPECT(store == NULL);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(closing_does_not_wait_for_the_job)
{
    const struct ks_store_request request = registration();
    struct ks_lease_store *store;
    struct ks_detail detail;
    struct ks_loop *loop;

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(
        ks_sqlite_store_open(loop, ks_test_path("leases.db"), "app", NULL, NULL, &store, &detail));
    /* The first goes out with the job, the second waits for it. */
    store->vtable->ask(store, &request);
    store->vtable->ask(store, &request);
    EXPECT_EQ_I64(answers, 0);
    store->vtable->close(store);
    EXPECT_EQ_I64(answers, 2);
    EXPECT(ks_err_is(last, KS_ERR_CANCELLED));
    while (ks_alloc_live() > 0 && answers == 2) {
        const int64_t before = ks_alloc_live();

        ks_loop_turn(loop, ks_span_ms(50));
        if (ks_alloc_live() < before)
            break;
    }
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    EXPECT_EQ_I64(answers, 2);
}

TEST(every_allocation_of_open_may_fail)
{
    const char *const path = ks_test_path("leases.db");
    struct ks_loop *loop;
    bool opened = false;

    EXPECT_OK(ks_loop_new(&loop));
    for (uint64_t n = 1; !opened; n++) {
        const int64_t before = ks_alloc_live();
        struct ks_lease_store *store = NULL;
        struct ks_detail detail;

        EXPECT(n < 100);
        ks_alloc_fail_after(n, 1);
        opened = ks_ok(ks_sqlite_store_open(loop, path, "app", NULL, NULL, &store, &detail));
        ks_alloc_fail_after(0, 0);
        if (opened) {
            EXPECT(n > 3);
            store->vtable->close(store);
            ks_loop_await_jobs(loop, ks_span_ms(20000));
        }
        EXPECT_EQ_I64(ks_alloc_live(), before);
    }
    ks_loop_free(loop);
}
