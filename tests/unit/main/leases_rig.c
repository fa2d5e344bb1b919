/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/main/leases_rig.h"

#include "base/log.h"
#include "ks_test.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

char rig_output[RIG_OUTPUT_MAX];

static struct ks_options options;
static struct ks_lease_desk desk;

const char *rig_table(const char *name)
{
    static char words[32][300];
    static unsigned next;
    char *const word = words[next++ % 32];

    (void)snprintf(word, sizeof(words[0]), "native:sqlite:%s/%s.db", ks_test_dir(), name);
    return word;
}

static void open_table(const char *name, bool make, struct ks_lease_table *table)
{
    char *argv[] = {"test", "--application", "app"};
    char *none[] = {NULL};
    struct ks_detail detail = {""};

    ks_log_open(STDERR_FILENO, KS_LOG_WARN, KS_LOG_TEXT);
    EXPECT_OK(ks_options_read_partly(3, argv, none, &options, &detail));
    EXPECT_OK(ks_lease_desk_open(&desk, &options));
    EXPECT_OK(ks_lease_table_name(table, &desk, rig_table(name), &detail));
    EXPECT_OK(ks_lease_table_open(table, make, &detail));
    EXPECT_OK(ks_lease_table_read(table, &detail));
}

static void close_table(struct ks_lease_table *table)
{
    ks_lease_table_close(table);
    ks_lease_desk_close(&desk);
}

void rig_fill(const char *name)
{
    static const struct ks_store_lease rows[] = {
        {.shard = "shardId-0",
         .owner = {"worker-a", 7},
         .epoch = 3,
         .rev = 9,
         .checkpoint = {KS_POSITION_AFTER_SEQUENCE, 0, "4959", -1}},
        {.shard = "shardId-1",
         .checkpoint = {.kind = KS_POSITION_SHARD_END, .sub_sequence = -1},
         .finished = true},
        {.shard = "shardId-2", .checkpoint = {.sub_sequence = -1}},
    };
    struct ks_lease_mend mends[3] = {{.lease = &rows[0]}, {.lease = &rows[1]}, {.lease = &rows[2]}};
    struct ks_lease_table table;

    open_table(name, true, &table);
    ks_lease_table_mend(&table, mends, 3);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ_I64(mends[i].outcome, KS_DONE);
    close_table(&table);
}

static int answers;

static void registered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    (void)token;
    answers++;
    *(enum ks_outcome *)arg = answer->outcome;
}

void rig_register(const char *name)
{
    enum ks_outcome outcome = KS_UNKNOWN;
    const struct ks_store_request request = {.operation = KS_STORE_REGISTER_NEW,
                                             .worker = {"worker-a", 7},
                                             .timeout = ks_span_ms(10000),
                                             .answered = registered,
                                             .arg = &outcome};
    struct ks_lease_table table;

    open_table(name, false, &table);
    answers = 0;
    table.store->vtable->ask(table.store, &request);
    while (answers == 0) /* The store's own deadline ends it. */
        ks_loop_turn(desk.loop, ks_span_ms(10000));
    EXPECT_EQ_I64(outcome, KS_DONE);
    close_table(&table);
}

int rig_leases(const char *const *words)
{
    const char *all[20];
    int count = 0;

    while (words[count] != NULL && count < 15) {
        all[count] = words[count];
        count++;
    }
    all[count++] = "--application";
    all[count++] = "app";
    all[count++] = "--lease-duration-ms";
    all[count++] = "1000";
    all[count] = NULL;
    rig_output[0] = '\0';
    return sidecar_call(ks_command_leases, all, "", rig_output, sizeof(rig_output));
}

struct ks_store_lease rig_row(const char *name, const char *shard)
{
    struct ks_lease_table table;
    struct ks_reading reading;
    const struct ks_store_lease *found;
    struct ks_store_lease lease;

    open_table(name, false, &table);
    reading = ks_lease_table_reading(&table.rows);
    found = ks_reading_lease(&reading, "", shard);
    EXPECT(found != NULL);
    lease = *found;
    lease.words = NULL;
    close_table(&table);
    return lease;
}
