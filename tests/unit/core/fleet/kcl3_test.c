/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/kcl3.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

/* Requests, as they are numbered there. */
enum { APART, TOGETHER, SURVEY, REPORT, OWNED };

#define KCL (peers_bed.core->fleet.kcl)

static uint64_t token_of(uint32_t what)
{
    EXPECT(KCL.serials[what] != 0);
    return ks_token_make(KS_FOR_NEWS, what, KCL.serials[what]);
}

static void answer(uint32_t what, const struct ks_kcl_rows *rows, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_STORE};

    event.store.token = token_of(what);
    event.store.outcome = outcome;
    if (rows != NULL)
        event.store.kcl = *rows;
    peers_step(&event);
}

/* Waits for the next probe and answers it. */
static void await_probe(void)
{
    if (!KCL.counted)
        peers_look(NULL); /* Who has not seen the rows says nothing to a leader. */
    for (int i = 0; i < 1000 && KCL.serials[APART] == 0; i++)
        peers_wait(100);
    while (KCL.serials[REPORT] != 0)
        answer(REPORT, NULL, KS_DONE);
}

static void probe(const struct ks_kcl_rows *apart, const struct ks_kcl_rows *together)
{
    static const struct ks_kcl_rows none;

    await_probe();
    answer(APART, apart == NULL ? &none : apart, KS_DONE);
    answer(TOGETHER, together == NULL ? &none : together, KS_DONE);
}

/* In tables of their own, with the name of who leads. */
static void probe_led(const struct ks_kcl_rows *apart, uint32_t leader)
{
    struct ks_event event = {.kind = KS_EVENT_STORE};

    await_probe();
    event.store.token = token_of(APART);
    event.store.outcome = KS_DONE;
    event.store.kcl = *apart;
    event.store.leader.holder.worker = leader;
    peers_step(&event);
    answer(TOGETHER, &(struct ks_kcl_rows){.version = KS_KCL_UNSAID}, KS_DONE);
}

static struct ks_kcl_rows rows_of(enum ks_kcl_version version, uint64_t leader)
{
    return (struct ks_kcl_rows){
        .version = version, .leader = leader, .leader_span = ks_span_ms(120000)};
}

/* It is known now that nobody else reports: our first report. */
static const struct ks_store_effect *first_report(void)
{
    struct ks_event rows = {.kind = KS_EVENT_STORE};

    EXPECT(KCL.serials[REPORT] == 0);
    if (KCL.together) {
        ks_kcl3_rows_read(peers_bed.core, &rows);
        peers_wait(1);
    } else {
        answer(SURVEY, NULL, KS_DONE);
    }
    return bed_asked(&peers_bed, KS_STORE_HEARTBEAT);
}

/* A fleet of 3.5 that a leader leads. */
static void live_led(void)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);

    peers_begin(KS_PROTOCOL_KCL);
    probe(NULL, &led);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_ASSIGNED));
    EXPECT(first_report()->together);
}

static void owned_shard(enum ks_outcome outcome, uint32_t count, ks_shard shard)
{
    const struct ks_lease_row key = {.shard = shard, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    struct ks_event event = {.kind = KS_EVENT_STORE};

    for (int i = 0; i < 300 && KCL.serials[OWNED] == 0; i++)
        peers_wait(100);
    event.store.token = token_of(OWNED);
    event.store.outcome = outcome;
    event.store.leases = &key;
    event.store.lease_count = count;
    peers_step(&event);
}

static void owned(enum ks_outcome outcome, uint32_t count)
{
    owned_shard(outcome, count, 0);
}

/* ---- Manners ---- */

TEST(nothing_is_taken_before_the_fleet_says_how_it_agrees)
{
    const struct ks_lease_row row = peers_row(0, 3);

    peers_begin(KS_PROTOCOL_KCL);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    answer(APART, NULL, KS_UNKNOWN);
    answer(TOGETHER, NULL, KS_DONE);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    probe(NULL, NULL);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_EQUALS));
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
    EXPECT(KCL.serials[REPORT] == 0); /* A fleet of 2.x has no place for reports. */
}

TEST(who_waits_for_the_flip_takes_and_reports)
{
    const struct ks_kcl_rows upgrade = rows_of(KS_KCL_UPGRADE_FROM_2X, 0);
    const struct ks_lease_row row = peers_row(0, 3);
    const struct ks_store_effect *report;

    peers_begin(KS_PROTOCOL_KCL);
    probe(&upgrade, NULL);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_EQUALS));
    report = first_report();
    EXPECT(report != NULL && !report->together && report->measured);
    EXPECT_EQ_I64(report->next_rev, PEERS_WALL_US / 1000000);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(a_leader_assigns_and_nobody_takes)
{
    const struct ks_lease_row row = peers_row(0, 3);

    live_led();
    EXPECT(KCL.serials[OWNED] != 0);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
}

TEST(a_leader_that_stands_still_is_gone_and_comes_back)
{
    struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);
    const struct ks_lease_row row = peers_row(0, 3);

    live_led();
    answer(REPORT, NULL, KS_DONE);
    owned(KS_DONE, 0);
    probe(NULL, &led);
    EXPECT(!bed_told(&peers_bed, KS_STORY_KCL_UNLED)); /* A minute. */
    probe(NULL, &led);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNLED));
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
    led.leader = 8;
    probe(NULL, &led);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_ASSIGNED));
}

TEST(where_nobody_ever_led_free_leases_are_taken)
{
    const struct ks_kcl_rows unled = rows_of(KS_KCL_3X_WITH_ROLLBACK, 0);
    const struct ks_lease_row row = peers_row(0, 3);

    peers_begin(KS_PROTOCOL_KCL);
    probe(&unled, NULL);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNLED));
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(while_nobody_leads_it_is_asked_soon_who_does)
{
    const struct ks_kcl_rows unled = rows_of(KS_KCL_3X_WITH_ROLLBACK, 0);

    peers_begin(KS_PROTOCOL_KCL);
    probe(&unled, NULL);
    peers_wait(peers_bed.core->config.lease_duration.us / 1000);
    EXPECT(KCL.serials[APART] != 0);
}

TEST(a_rollback_is_followed_and_leases_stay)
{
    const struct ks_kcl_rows back = rows_of(KS_KCL_2X, 0);

    live_led();
    answer(REPORT, NULL, KS_DONE);
    (void)bed_hold(&peers_bed, 0, 5);
    peers_bed.core->leases[0].renew_at = KS_NEVER;
    probe(NULL, &back);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_EQUALS));
    EXPECT(ks_kcl3_takes(peers_bed.core));
    EXPECT_EQ_I64(peers_bed.core->leases_used, 1);
    EXPECT_EQ_I64(peers_bed.core->leases[0].state, KS_LEASE_HELD);
}

/* The operator's tool deletes the table of the reports then. */
TEST(after_a_rollback_nothing_is_reported)
{
    const struct ks_kcl_rows back = rows_of(KS_KCL_2X, 0);
    const struct ks_kcl_rows upgrade = rows_of(KS_KCL_UPGRADE_FROM_2X, 0);

    live_led();
    answer(REPORT, NULL, KS_DONE);
    probe(NULL, &back);
    EXPECT(bed_asked(&peers_bed, KS_STORE_SAY_GONE) != NULL);
    answer(REPORT, NULL, KS_DONE);
    peers_wait(60000);
    EXPECT(KCL.serials[REPORT] == 0);
    probe(NULL, &upgrade);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) != NULL);
}

/* Two reads, and a move between them. */
TEST(rows_that_are_read_while_they_move_are_read_again)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);
    struct ks_kcl_rows rest = {.version = KS_KCL_UNSAID, .leader = 8};

    peers_begin(KS_PROTOCOL_KCL);
    probe(&led, NULL);
    probe(&rest, NULL);
    EXPECT(!bed_told(&peers_bed, KS_STORY_KCL_EQUALS) && !ks_kcl3_takes(peers_bed.core));
    peers_wait(2000);
    EXPECT(KCL.serials[APART] != 0);
    probe(&rest, &led);
    EXPECT(!ks_kcl3_takes(peers_bed.core) && KCL.together);
    rest = (struct ks_kcl_rows){.tables = KS_KCL_TABLES_PENDING};
    probe(&rest, NULL);
    EXPECT(!bed_told(&peers_bed, KS_STORY_KCL_UNKNOWN));
    probe(&rest, NULL);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNKNOWN)); /* It is no matter of moments. */
    EXPECT(!ks_kcl3_takes(peers_bed.core));
}

TEST(rows_that_nobody_knows_change_nothing)
{
    struct ks_kcl_rows strange = {.damaged = true};
    const struct ks_lease_row row = peers_row(0, 3);

    peers_begin(KS_PROTOCOL_KCL);
    probe(&strange, NULL);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNKNOWN));
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    probe(&strange, NULL);
    EXPECT(!bed_told(&peers_bed, KS_STORY_KCL_UNKNOWN)); /* Once. */
    live_led();
    probe(NULL, &strange);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNKNOWN));
    EXPECT(!ks_kcl3_takes(peers_bed.core));
}

/* ---- Tables ---- */

TEST(rows_that_move_into_one_table_are_followed)
{
    struct ks_kcl_rows apart = rows_of(KS_KCL_3X, 7);
    struct ks_kcl_rows together = {.version = KS_KCL_UNSAID};

    peers_begin(KS_PROTOCOL_KCL);
    apart.tables = KS_KCL_TABLES_DEPLOYED;
    probe(&apart, NULL);
    EXPECT(!first_report()->together);
    answer(REPORT, NULL, KS_DONE);
    apart.tables = KS_KCL_TABLES_PENDING;
    apart.leader = 8;
    probe(&apart, NULL);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->together);
    answer(REPORT, NULL, KS_DONE);
    apart.tables = KS_KCL_TABLES_COMPLETE;
    together = rows_of(KS_KCL_2X, 9);
    probe(&apart, &together);
    EXPECT(ks_kcl3_takes(peers_bed.core)); /* The old table says nothing any more. */
    probe(NULL, &together);
    EXPECT(ks_kcl3_takes(peers_bed.core) && KCL.together);
}

/* All rows, with the report of whoever leads in the table of the leases, `age` s old. */
static void look_at_reports(int64_t age)
{
    const struct ks_worker_row workers[] = {
        {.self = {BED_ME, 0}, .beat = (uint64_t)peers_wall_us / 1000000},
        {.self = {BED_OTHER, 0}, .beat = (uint64_t)(peers_wall_us / 1000000 - age)},
    };
    struct ks_event event = {.kind = KS_EVENT_STORE};

    event.store.workers = workers;
    event.store.worker_count = 2;
    ks_kcl3_rows_read(peers_bed.core, &event);
}

/* Reports of everybody are to be there before the leader lets the rows move. */
TEST(where_rows_may_move_reports_go_where_the_leaders_goes)
{
    struct ks_kcl_rows apart = rows_of(KS_KCL_3X, 7);

    peers_begin(KS_PROTOCOL_KCL);
    apart.tables = KS_KCL_TABLES_DEPLOYED;
    probe_led(&apart, BED_OTHER);
    EXPECT(!first_report()->together);
    look_at_reports(3600); /* He is gone. */
    probe_led(&apart, BED_OTHER);
    EXPECT(!KCL.together);
    look_at_reports(10);
    apart.leader = 8;
    probe_led(&apart, BED_OTHER);
    EXPECT(KCL.together);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->together);
    apart.tables = KS_KCL_TABLES_INIT; /* Somebody may know nothing of it. */
    probe_led(&apart, BED_OTHER + 1);
    EXPECT(!KCL.together);
    apart.tables = KS_KCL_TABLES_DEPLOYED;
    look_at_reports(10);
    probe_led(&apart, BED_OTHER + 1);
    EXPECT(!KCL.together); /* Another one leads, and reports where he did. */
}

/* ---- Reports ---- */

static void survey(uint64_t beat, bool measured)
{
    const struct ks_worker_row workers[] = {
        {.self = {BED_ME, 0}, .beat = PEERS_WALL_US / 1000000, .measured = true},
        {.self = {BED_OTHER, 0}, .beat = beat, .measured = measured},
    };
    struct ks_event event = {.kind = KS_EVENT_STORE};

    event.store.token = token_of(SURVEY);
    event.store.outcome = KS_DONE;
    event.store.workers = workers;
    event.store.worker_count = 2;
    peers_step(&event);
}

TEST(we_say_our_cpu_if_others_do)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);

    peers_begin(KS_PROTOCOL_KCL);
    probe(&led, NULL);
    EXPECT(KCL.measured);
    for (int i = 0; i < 1000 && KCL.serials[SURVEY] == 0; i++)
        peers_wait(100);
    survey((uint64_t)peers_wall_us / 1000000, false);
    EXPECT(!KCL.measured);
    probe(&led, NULL);
    for (int i = 0; i < 1000 && KCL.serials[SURVEY] == 0; i++)
        peers_wait(100);
    survey((uint64_t)peers_wall_us / 1000000 - 3600, false); /* He is gone. */
    EXPECT(KCL.measured);
}

/* One that says its CPU among others that do not would get nothing, or all. */
TEST(nothing_is_reported_before_it_is_known_what_others_say)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);

    peers_begin(KS_PROTOCOL_KCL);
    probe(&led, NULL);
    peers_wait(1000);
    EXPECT(KCL.serials[REPORT] == 0);
    survey((uint64_t)peers_wall_us / 1000000, false);
    EXPECT(!bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->measured);
    peers_begin(KS_PROTOCOL_KCL);
    probe(&led, NULL);
    answer(SURVEY, NULL, KS_UNKNOWN);
    EXPECT(KCL.serials[REPORT] != 0);
}

TEST(reports_come_every_so_often_and_again_after_one_that_failed)
{
    live_led();
    answer(REPORT, NULL, KS_DONE);
    peers_wait(29900);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) == NULL);
    peers_wait(100);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) != NULL);
    answer(REPORT, NULL, KS_UNKNOWN);
    peers_wait(2000);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) != NULL);
}

/* One that lands after we said that we are gone must not make the row again: a leader would assign leases to nobody. */
TEST(only_the_first_report_makes_the_row)
{
    live_led();
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat, 0);
    answer(REPORT, NULL, KS_UNKNOWN);
    peers_wait(2000);
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat, 0);
    answer(REPORT, NULL, KS_DONE);
    peers_wait(30000);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat != 0);
    answer(REPORT, NULL, KS_UNKNOWN);
    peers_wait(2000);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat != 0);
    /* Somebody has removed it. */
    answer(REPORT, NULL, KS_REFUSED);
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat, 0);
    /* And another row of that key is no reason for haste. */
    answer(REPORT, NULL, KS_REFUSED);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) == NULL);
}

TEST(who_wants_no_leases_reports_no_more)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain.span = ks_span_ms(1000)};

    live_led();
    answer(REPORT, NULL, KS_DONE);
    (void)bed_hold(&peers_bed, 0, 5);
    peers_step(&drain);
    EXPECT(bed_asked(&peers_bed, KS_STORE_SAY_GONE) != NULL);
    EXPECT(bed_asked(&peers_bed, KS_STORE_SAY_GONE)->together);
    answer(REPORT, NULL, KS_DONE);
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) == NULL);
}

TEST(nobody_leaves_before_his_report_is_gone)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain.span = ks_span_ms(1000)};

    live_led();
    answer(REPORT, NULL, KS_DONE);
    peers_step(&drain);
    bed_settle_down(&peers_bed);
    EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 0);
    answer(REPORT, NULL, KS_DONE);
    bed_settle_down(&peers_bed);
    EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 1);
}

/* ---- What is assigned ---- */

TEST(what_is_assigned_is_read_then_proven_then_served)
{
    const struct ks_lease_row free = peers_row(0, 40);
    struct ks_lease_row row = peers_row(BED_ME, 41);
    const struct ks_store_effect *store;

    live_led();
    peers_look(&free);
    owned(KS_DONE, 1);
    bed_settle_down(&peers_bed);
    store = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(store != NULL && store->consistent);
    bed_answer_lease(&peers_bed, store->token, &row);
    bed_settle_down(&peers_bed);
    store = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    EXPECT(store != NULL && store->rev == 41 && store->owner.worker == BED_ME);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 0);
    bed_answer(&peers_bed, store->token, KS_DONE);
    bed_settle_down(&peers_bed);
    store = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(store != NULL);
    row.rev = 42;
    bed_answer_lease(&peers_bed, store->token, &row);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 1);
}

static void is_left_alone(const struct ks_lease_row *row)
{
    const struct ks_store_effect *store;

    live_led();
    owned(KS_DONE, 1);
    bed_settle_down(&peers_bed);
    store = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(store != NULL);
    bed_answer_lease(&peers_bed, store->token, row);
    bed_settle_down(&peers_bed);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    EXPECT(!peers_bed.core->directory[0].writing);
}

TEST(an_index_that_is_behind_gives_nothing)
{
    struct ks_lease_row row = peers_row(BED_OTHER, 41);

    is_left_alone(&row);
    /* It is being given to us, and its owner is not ready. */
    row.next_owner = (struct ks_incarnation){BED_ME, 0};
    is_left_alone(&row);
    row = peers_row(BED_ME, 41);
    row.finished = true;
    is_left_alone(&row);
}

static void look_finds(const struct ks_lease_row *row)
{
    live_led();
    owned(KS_DONE, 0);
    peers_look(row);
    bed_settle_down(&peers_bed);
    EXPECT(peers_read(row));
    bed_settle_down(&peers_bed);
}

TEST(look_at_the_rows_finds_what_the_index_does_not_show)
{
    struct ks_lease_row row = peers_row(BED_ME, 41);

    look_finds(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL);
    row.next_owner = (struct ks_incarnation){BED_OTHER, 0}; /* Asked for before a restart. */
    look_finds(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_FINAL) != NULL);
}

TEST(without_an_index_all_rows_are_looked_at)
{
    struct ks_lease_row row = peers_row(BED_OTHER, 3);

    live_led();
    peers_look(&row);
    EXPECT(ks_instant_since(peers_bed.core->fleet.round_at, peers_bed.now).us > 50000000);
    owned(KS_UNKNOWN, 0);
    EXPECT(ks_instant_since(peers_bed.core->fleet.round_at, peers_bed.now).us <= 10000000);
    row.owner.worker = BED_ME;
    peers_look(&row);
    bed_settle_down(&peers_bed);
    EXPECT(bed_asked(&peers_bed, KS_STORE_READ_LEASE) != NULL);
}

static const struct ks_shard_row parent_and_child[] = {
    {.shard = 0, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}, .closed = true},
    {.shard = 1, .parents = {0, KS_SHARD_NONE}}};

/* A look at their rows, before the child is assigned to us. */
static void look_before(const struct ks_lease_row *rows)
{
    struct ks_lease_row before[] = {rows[0], rows[1]};

    before[1].owner = rows[0].owner;
    peers_look_at(before, 2);
}

/* The index names us, and the row does, too. */
static void assigned_child(const struct ks_lease_row *child)
{
    owned_shard(KS_DONE, 1, child->shard);
    bed_settle_down(&peers_bed);
    /* It may have been renewed meanwhile. */
    if (peers_answer(KS_STORE_TAKE_OVER, child->shard, KS_REFUSED))
        bed_settle_down(&peers_bed);
    EXPECT(peers_read_token() != 0);
    bed_answer_lease(&peers_bed, peers_read_token(), child);
    bed_settle_down(&peers_bed);
}

/* A second later everything is answered, of a parent and its child that is assigned to us. Returns how often that was
 * renewed, or taken. */
static uint32_t renewals_of(struct ks_lease_row *rows, uint32_t count)
{
    uint32_t renewals = 0;

    peers_wait(1000);
    if (KCL.serials[OWNED] != 0)
        owned_shard(KS_DONE, 1, 1);
    if (peers_bed.core->fleet.rows != 0)
        peers_look_at(rows, count);
    for (int i = 0; i < 8; i++) {
        bed_settle_down(&peers_bed);
        (void)peers_read(rows);
        if (!peers_answer(KS_STORE_TAKE_OVER, 1, KS_DONE))
            continue;
        rows[1].rev++;
        renewals++;
    }
    return renewals;
}

TEST(an_assigned_child_waits_for_a_fresh_look_at_its_parents)
{
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 3), peers_row(BED_ME, 1)};

    rows[1].shard = 1;
    rows[1].parents[0] = 0;
    live_led();
    peers_look(NULL); /* The last for a while: no rows yet. */
    (void)peers_answer(KS_STORE_CREATE, 0, KS_DONE);
    assigned_child(&rows[1]);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    peers_list(parent_and_child, 2);
    assigned_child(&rows[1]);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    peers_look_at(rows, 2);
    bed_settle_down(&peers_bed);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 0);
    rows[0].finished = true;
    for (int seconds = 0; seconds < 12; seconds++)
        (void)renewals_of(rows, 2);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 1);
}

/* Rows that were made since the last look: listings, too, may be behind. */
TEST(an_assigned_child_waits_for_a_look_that_would_show_its_parent)
{
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 9), peers_row(BED_ME, 1),
                                  peers_row(BED_OTHER, 3)};

    rows[1].shard = 1;
    rows[1].parents[0] = 2;
    rows[2].shard = 2;
    live_led();
    peers_look(rows);
    assigned_child(&rows[1]);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    peers_look_at(rows, 3);
    for (int seconds = 0; seconds < 12; seconds++)
        (void)renewals_of(rows, 3);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 0);
}

TEST(an_assigned_child_waits_for_no_look_where_its_parent_can_be_read)
{
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 3), peers_row(BED_ME, 1)};

    rows[1].shard = 1;
    rows[1].parents[0] = 0;
    live_led();
    peers_list(parent_and_child, 2);
    look_before(rows);
    peers_wait(5000);
    assigned_child(&rows[1]);
    EXPECT(peers_bed.core->fleet.rows == 0);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    rows[0].finished = true;
    EXPECT(peers_read(rows));
    bed_settle_down(&peers_bed);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL);
    /* What cannot be read, or is not over, is waited for. */
    live_led();
    peers_list(parent_and_child, 2);
    rows[0].finished = false;
    look_before(rows);
    peers_wait(5000);
    assigned_child(&rows[1]);
    EXPECT(peers_read(rows));
    bed_settle_down(&peers_bed);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    EXPECT(KCL.waiting && peers_read_token() == 0);
}

/* As the library does with all that it has: a leader gives what stands still for a lease to somebody else. */
TEST(an_assigned_child_that_waits_is_renewed_and_not_served)
{
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 3), peers_row(BED_ME, 1)};
    uint32_t renewals = 0;

    rows[1].shard = 1;
    rows[1].parents[0] = 0;
    live_led();
    peers_list(parent_and_child, 2);
    peers_look_at(rows, 2);
    assigned_child(&rows[1]);
    for (int seconds = 0; seconds < 60; seconds++) {
        renewals += renewals_of(rows, 2);
        EXPECT_EQ_I64(peers_bed.core->leases_used, 0);
    }
    EXPECT(renewals >= 12 && renewals <= 20);
    rows[0].finished = true;
    for (int seconds = 0; seconds < 5; seconds++)
        (void)renewals_of(rows, 2);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 1);
}

TEST(waiting_child_is_handed_on_when_its_leader_asks)
{
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 3), peers_row(BED_ME, 1)};
    bool handed_on = false;

    rows[1].shard = 1;
    rows[1].parents[0] = 0;
    live_led();
    peers_list(parent_and_child, 2);
    peers_look_at(rows, 2);
    assigned_child(&rows[1]);
    /* Its leader names another worker: our next renewal is refused, and the row is read. */
    rows[1].next_owner = (struct ks_incarnation){BED_OTHER, 0};
    for (int seconds = 0; seconds < 10 && !handed_on; seconds++) {
        peers_wait(1000);
        (void)peers_answer(KS_STORE_TAKE_OVER, 1, KS_REFUSED);
        while (peers_read(rows))
            bed_settle_down(&peers_bed);
        handed_on = peers_answer(KS_STORE_FINAL, 1, KS_DONE);
    }
    EXPECT(handed_on);
    EXPECT_EQ_I64(peers_bed.core->leases_used, 0);
}

TEST(who_waited_for_parents_reads_no_faster_when_the_leader_is_gone)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);
    struct ks_lease_row rows[] = {peers_row(BED_OTHER, 3), peers_row(BED_ME, 1)};

    rows[1].shard = 1;
    rows[1].parents[0] = 0;
    live_led();
    peers_list(parent_and_child, 2);
    look_before(rows);
    assigned_child(&rows[1]);
    EXPECT(KCL.waiting);
    for (int i = 0; i < 5 && KCL.led; i++)
        probe(NULL, &led);
    EXPECT(!KCL.led && !KCL.waiting);
    peers_look_at(rows, 2);
    EXPECT(ks_instant_before(peers_bed.now, peers_bed.core->fleet.round_at));
}

/* ---- Of several streams ---- */

TEST(a_leader_that_would_assign_what_we_do_not_read_is_told_nothing)
{
    const struct ks_kcl_rows led = rows_of(KS_KCL_3X, 7);
    struct ks_lease_row rows[2] = {peers_row(BED_OTHER, 3), peers_row(BED_OTHER, 3)};

    rows[1].shard = 1;
    rows[1].elsewhere = true;
    rows[1].unserved = true;
    peers_begin(KS_PROTOCOL_KCL);
    peers_look_at(rows, 2);
    probe(NULL, &led);
    peers_look_at(rows, 2);
    EXPECT(bed_told(&peers_bed, KS_STORY_KCL_UNSERVED));
    for (int i = 0; i < 100; i++) {
        peers_wait(1000);
        EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) == NULL);
    }
    /* Another subscription reads it now. */
    rows[1].unserved = false;
    peers_look_at(rows, 2);
    peers_wait(10);
    EXPECT(KCL.reported);
    answer(REPORT, NULL, KS_DONE);
    /* And none does any more: the report goes. */
    rows[1].unserved = true;
    peers_look_at(rows, 2);
    EXPECT(!bed_told(&peers_bed, KS_STORY_KCL_UNSERVED)); /* It was told. */
    while (KCL.serials[REPORT] != 0 && !KCL.going)
        answer(REPORT, NULL, KS_DONE);
    EXPECT(KCL.going);
}

TEST(an_assigned_shard_of_another_stream_is_not_followed)
{
    struct ks_lease_row row = peers_row(BED_ME, 3);

    row.elsewhere = true;
    live_led();
    peers_look(&row);
    owned(KS_DONE, 1);
    for (int i = 0; i < 20; i++) {
        EXPECT(bed_asked(&peers_bed, KS_STORE_READ_LEASE) == NULL);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(100);
    }
}

TEST(while_others_on_our_table_want_no_leases_a_leader_is_told_nothing)
{
    const struct ks_lease_row row = peers_row(BED_OTHER, 3);

    live_led();
    peers_look(&row);
    while (KCL.serials[REPORT] != 0)
        answer(REPORT, NULL, KS_DONE);
    EXPECT(KCL.reported);
    peers_step(&(struct ks_event){.kind = KS_EVENT_KIN, .kin.away = true});
    EXPECT(bed_asked(&peers_bed, KS_STORE_SAY_GONE) != NULL);
    answer(REPORT, NULL, KS_DONE);
    EXPECT(!KCL.reported);
    peers_step(&(struct ks_event){.kind = KS_EVENT_KIN, .kin.away = false});
    EXPECT(bed_asked(&peers_bed, KS_STORE_HEARTBEAT) != NULL);
}
