/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/reading.h"

#include "aws_rig.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

struct house {
    struct ks_loop *loop;
    struct aws_rig aws;
    struct ks_reading reading;
};

/* Nobody answers there, and the loop does not turn. */
static void open_house(struct house *house)
{
    *house = (struct house){.loop = NULL};
    EXPECT_OK(ks_loop_new(&house->loop));
    aws_rig_open(&house->aws, house->loop, KS_AWS_KINESIS, "http://127.0.0.1:1");
    const struct ks_reading_options options = {
        .loop = house->loop, .client = house->aws.client, .stream = "orders"};
    EXPECT_OK(ks_reading_open(&house->reading, &options, NULL));
}

static void close_house(struct house *house)
{
    ks_reading_close(&house->reading);
    aws_rig_close(&house->aws);
    ks_loop_free(house->loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_name_that_is_none_is_invalid)
{
    struct ks_reading reading = {.control = NULL};
    struct ks_reading_options options = {.stream = ""};
    struct ks_detail detail;
    char name[KS_STREAM_NAME_MAX + 2];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    EXPECT_ERR(ks_reading_open(&reading, &options, &detail), INVALID);
    options.stream = name;
    EXPECT_ERR(ks_reading_open(&reading, &options, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "1 to 128");
    ks_reading_close(&reading);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static enum ks_store_state state_of(const struct house *house)
{
    struct ks_detail detail;

    return ks_reading_state(&house->reading.port, &detail);
}

TEST(what_readers_met_counts_while_somebody_reads)
{
    const struct ks_position from = {.kind = KS_POSITION_TRIM_HORIZON};
    const struct ks_detail why = {"no key"};
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_link first, second;
    struct ks_place place;
    struct house house;

    open_house(&house);
    ks_link_init(&first);
    ks_link_init(&second);
    ks_reading_join(&house.reading, &first, "shard-1", &from, &place, shard);
    EXPECT_STR(shard, "shard-1");
    ks_reading_join(&house.reading, &second, "shard-2", &from, &place, shard);
    ks_reading_hear(&house.reading, KS_OK, &why);
    EXPECT_EQ_I64(state_of(&house), KS_STORE_READY);
    /* Of the shard, and of the place in it. */
    ks_reading_hear(&house.reading, KS_FAIL(NOT_FOUND), &why);
    ks_reading_hear(&house.reading, KS_FAIL(INVALID), &why);
    EXPECT_EQ_I64(state_of(&house), KS_STORE_READY);
    ks_reading_hear(&house.reading, KS_FAIL(DENIED), &why);
    EXPECT_EQ_I64(state_of(&house), KS_STORE_UNUSABLE);
    ks_reading_leave(&house.reading, &first);
    EXPECT(house.reading.readers.next == &second);
    ks_reading_leave(&house.reading, &second);
    EXPECT(ks_list_empty(&house.reading.readers));
    close_house(&house);
}

TEST(server_that_answered_in_cbor_understands_it)
{
    const struct ks_failure unknown_type = {.status = 415, .err = KS_FAIL(SERVER)};
    struct ks_wire_request request = {.cbor = false};
    struct house house;

    open_house(&house);
    ks_reading_begin(&house.reading, &request);
    EXPECT(request.cbor);
    EXPECT(!ks_reading_repeats(&house.reading, &request, NULL, KS_VIEW_NONE));
    ks_reading_spoke(&house.reading, &request, true);
    EXPECT(!ks_reading_repeats(&house.reading, &request, &unknown_type, KS_VIEW_NONE));
    EXPECT(!ks_reading_repeats_unreadable(&house.reading, &request, false));
    EXPECT(ks_reading_repeats_unreadable(&house.reading, &request, true));
    ks_reading_begin(&house.reading, &request);
    EXPECT(!request.cbor);
    close_house(&house);
}

TEST(server_that_refuses_cbor_is_asked_again_in_json)
{
    const struct ks_failure unknown_type = {.status = 415, .err = KS_FAIL(SERVER)};
    struct ks_wire_request request = {.cbor = false};
    struct house house;

    open_house(&house);
    ks_reading_begin(&house.reading, &request);
    EXPECT(ks_reading_repeats(&house.reading, &request, &unknown_type, KS_VIEW_NONE));
    ks_reading_begin(&house.reading, &request);
    EXPECT(!request.cbor);
    close_house(&house);
}
