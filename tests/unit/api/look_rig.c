/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/look_rig.h"

#include "ks_test.h"
#include "ports/lease_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig *beside;
static struct stage leader;
static char the_shard[KS_SHARD_ID_MAX + 1];

/* A look at the table, until the test lets it go. */
static const struct ks_lease_store_vtable *store_vtable;
static struct ks_lease_store_vtable slow_vtable;
static struct ks_store_request held_look;

static void slow_ask(struct ks_lease_store *store, const struct ks_store_request *request)
{
    if (request->operation == KS_STORE_READ_LEASES)
        held_look = *request;
    else
        store_vtable->ask(store, request);
}

static bool has_rows(struct stage *stage)
{
    struct ks_shard_status status;
    uint32_t count = 0;

    for (uint32_t i = 0; i < ks_switchboard_shard_count(stage->board); i++)
        count +=
            ks_switchboard_shard(stage->board, ks_switchboard_shard_at(stage->board, i), &status) &&
            status.has_lease;
    return count == STAGE_SHARDS;
}

void look_begin(struct rig *rig)
{
    const char *id;

    beside = rig;
    stage_begin(&leader, "leader");
    stage_turn_until(&leader, has_rows);
    id = ks_switchboard_shard_id(leader.board, ks_switchboard_shard_at(leader.board, 0));
    EXPECT_OK(ks_view_copy_text(ks_view_text(id), the_shard, sizeof(the_shard)));
    rig_begin(rig);
    EXPECT_EQ_U64(ks_switchboard_shard_count(rig->stage.board), 0);
    held_look.answered = NULL;
    store_vtable = rig->stage.store->vtable;
    slow_vtable = *store_vtable;
    slow_vtable.ask = slow_ask;
    rig->stage.store->vtable = &slow_vtable;
}

void look_end(struct rig *rig)
{
    rig_end(rig);
    stage_vanish(&leader);
}

const char *look_shard(void)
{
    return the_shard;
}

bool look_is_asked(void)
{
    return held_look.answered != NULL;
}

void look_let(void)
{
    store_vtable->ask(beside->stage.store, &held_look);
    held_look.answered = NULL;
}

void look_fail(void)
{
    struct ks_store_answer unknown = {.outcome = KS_UNKNOWN, .err = KS_FAIL(TIMEOUT)};

    held_look.answered(held_look.arg, held_look.token, &unknown);
    held_look.answered = NULL;
}

const char *look_call(const char *method, const char *target, const char *body, bool fails)
{
    static char request[1000];
    ks_instant until = stage_patience();
    int fd = rig_connect(beside, "api");
    int size = snprintf(request, sizeof(request),
                        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        method, target, strlen(body), body);
    const char *answer;
    char byte;

    EXPECT(size > 0 && (size_t)size < sizeof(request));
    rig_send(beside, fd, request, (size_t)size);
    while (!look_is_asked()) {
        if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            FAIL("answered without a look: %.400s", rig_read(beside, fd, NULL));
        stage_turn(&beside->stage, until, ks_span_ms(1));
    }
    if (fails)
        look_fail();
    else
        look_let();
    answer = rig_read(beside, fd, NULL);
    (void)close(fd);
    return answer;
}
