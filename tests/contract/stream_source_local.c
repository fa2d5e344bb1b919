/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "adapters/local/shards.h"
#include "adapters/local/stream.h"

#include <stdio.h>

struct put_result {
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
    struct ks_put_result result;
};

static struct ks_stream_source *open_local(struct stream_rig *rig, uint32_t page_size)
{
    struct ks_stream_source *source;
    struct ks_detail detail = {.text = ""};

    (void)page_size; /* A file has no pages to ask for. */
    ks_err err = ks_local_source_open(rig->loop, rig->world, rig->stream, 1, &source, &detail);
    EXPECT_STR(ks_ok(err) ? "" : detail.text, "");
    return source;
}

static void set_up(struct stream_rig *rig, uint32_t shards)
{
    struct ks_local_db *db;

    rig->world = ks_strdup(ks_test_path("stream.db"));
    EXPECT_OK(ks_local_db_open(rig->world, rig->stream, shards, &db, NULL));
    ks_local_db_close(db);
}

static void keep_put(void *arg, const struct ks_put_answer *answer)
{
    struct put_result *kept = arg;

    kept->times++;
    kept->err = answer->err;
    kept->detail = answer->detail;
    if (answer->count > 0)
        kept->result = answer->results[0];
}

static void put(struct stream_rig *rig, const struct ks_put_entry *entry,
                struct ks_put_result *ret_result)
{
    struct put_result kept = {.times = 0};

    rig->source->vtable->put(rig->source, entry, 1, keep_put, &kept);
    EXPECT_EQ_U64(kept.times, 0);
    stream_rig_wait(rig, &kept.times, STREAM_WAIT_SECONDS);
    EXPECT_STR(ks_ok(kept.err) ? "" : kept.detail.text, "");
    EXPECT_OK(kept.result.err);
    *ret_result = kept.result;
}

static void split(struct stream_rig *rig, const char *shard, const char *at)
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(rig->world, rig->stream, 1, &db, NULL));
    EXPECT_OK(ks_shards_split(db, shard, at, NULL));
    ks_local_db_close(db);
}

static void merge(struct stream_rig *rig, const char *shard, const char *adjacent)
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(rig->world, rig->stream, 1, &db, NULL));
    EXPECT_OK(ks_shards_merge(db, shard, adjacent, NULL));
    ks_local_db_close(db);
}

static void tear_down(struct stream_rig *rig)
{
    ks_free(rig->world);
}

const struct stream_rig_adapter stream_rig_local = {
    .name = "local",
    .tells_children = true,
    .trims = true,
    .lists_since = true,
    .set_up = set_up,
    .open = open_local,
    .put = put,
    .split = split,
    .merge = merge,
    .tear_down = tear_down,
};
