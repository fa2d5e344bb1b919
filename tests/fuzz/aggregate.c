/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate.c - any bytes as the message of a KPL aggregate, magic and digest put around them: it is broken, or
 * every one of its user records can be read, lies within it and is fit to be delivered; nothing is left over.
 */
#include "adapters/kinesis/aggregate.h"
#include "base/digest.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t MAGIC[4] = {0xF3, 0x89, 0x9A, 0xC2};

static void check_view(ks_view whole, ks_view view)
{
    assert(view.data >= whole.data + sizeof(MAGIC));
    assert(view.data + view.size <= whole.data + whole.size - KS_MD5_SIZE);
}

static void check_user(ks_view whole, const struct ks_user_record *user)
{
    const struct ks_hash_range half = {0, KS_HASH_KEY_LAST / 2};
    ks_hash_key key = 0;

    check_view(whole, user->data);
    check_view(whole, user->partition_key);
    assert(ks_view_is_utf8(user->partition_key));
    assert(user->partition_key.size <= KS_PARTITION_KEY_MAX);
    if (user->explicit_hash_key.size > 0) {
        check_view(whole, user->explicit_hash_key);
        ks_err err = ks_hash_key_parse(user->explicit_hash_key, &key);
        assert(ks_ok(err));
    } else {
        key = ks_hash_key_of(user->partition_key);
    }
    assert(user->foreign == (key > half.end));
}

static void check(ks_view whole)
{
    const struct ks_hash_range half = {0, KS_HASH_KEY_LAST / 2};
    struct ks_aggregate aggregate;
    struct ks_user_record user;
    struct ks_budget budget;

    ks_budget_init(&budget, 0);
    ks_err err = ks_aggregate_open(whole, &budget, &aggregate);
    if (!ks_ok(err)) {
        assert(ks_err_is(err, KS_ERR_MALFORMED));
        assert(budget.used == 0);
        return;
    }
    assert(budget.used <= 2 * whole.size);
    for (int64_t count = 0; ks_aggregate_next(&aggregate, &half, &user); count++) {
        assert(user.sub_sequence == count);
        check_user(whole, &user);
    }
    assert(aggregate.next == aggregate.records);
    ks_aggregate_close(&aggregate);
    assert(budget.used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view message = ks_view_of(data, size);
    uint8_t *record = ks_alloc(sizeof(MAGIC) + size + KS_MD5_SIZE);
    ks_view whole = ks_view_of(record, sizeof(MAGIC) + size + KS_MD5_SIZE);

    memcpy(record, MAGIC, sizeof(MAGIC));
    if (size > 0)
        memcpy(record + sizeof(MAGIC), data, size);
    ks_md5(message, record + sizeof(MAGIC) + size);
    assert(ks_is_aggregate(whole) == (size > 0));
    if (size > 0)
        check(whole);
    ks_free(record);
    return 0;
}
