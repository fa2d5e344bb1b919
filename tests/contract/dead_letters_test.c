/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of ports/dead_letters.h, asked of every adapter of it (SQLite), with kills, full disks and damage. */
#include "adapters/sqlite/dead_letters.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/budget.h"
#include "ks_test.h"

enum { MOST = 64, MIB = 1 << 20 };

static struct ks_loop *loop;
static struct ks_dead_letters *store;
static struct ks_detail why;

/* What was answered last. */
static struct {
    uint32_t calls;
    enum ks_outcome outcome;
    uint32_t count;
    bool more;
    char ids[MOST][8];
    uint32_t attempts; /* Of the first. */
    size_t data_size;
    char reason[16];
    char detail[KS_DETAIL_SIZE];
} heard;

static void answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    heard.calls++;
    heard.outcome = answer->outcome;
    heard.count = answer->count;
    heard.more = answer->more;
    (void)snprintf(heard.detail, sizeof heard.detail, "%s", answer->detail.text);
    for (uint32_t i = 0; answer->outcome == KS_DONE && i < answer->count && i < MOST; i++)
        if (answer->letters != NULL)
            EXPECT_OK(ks_view_copy_text(answer->letters[i].id, heard.ids[i], sizeof heard.ids[i]));
    if (answer->outcome != KS_DONE || answer->letters == NULL || answer->count == 0)
        return;
    heard.attempts = answer->letters[0].attempts;
    heard.data_size = answer->letters[0].data.size;
    EXPECT_OK(ks_view_copy_text(answer->letters[0].reason, heard.reason, sizeof heard.reason));
}

static void wait_from(uint32_t before)
{
    for (int i = 0; i < 6000 && heard.calls == before; i++)
        ks_loop_turn(loop, ks_span_ms(10));
    EXPECT_EQ_I64(heard.calls, before + 1);
}

static const char *path(void)
{
    static const char *made;

    made = made == NULL ? ks_test_path("letters.db") : made;
    return made;
}

/* The adapter. Its file is in the test's own directory, and has letters of several applications. */
static const char *application = "app";

static ks_err open_store(void)
{
    const struct ks_letters_key key = {.application = application};

    return ks_sqlite_letters_open(loop, path(), &key, &store, &why);
}

static void begin(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(open_store());
}

static void end(void)
{
    store->vtable->close(store);
    ks_loop_free(loop);
}

static void restart(void)
{
    end();
    begin();
}

static uint8_t payload[MIB];

static struct ks_letter letter(const char *id, size_t data_size)
{
    return (struct ks_letter){
        .id = ks_view_text(id),
        .stream = KS_VIEW("s"),
        .shard_id = KS_VIEW("shardId-000000000000"),
        .sequence = KS_VIEW("42"),
        .sub_sequence = -1,
        .partition_key = KS_VIEW("k"),
        .data = ks_view_of(payload, data_size),
        .reason = KS_VIEW("first"),
        .attempts = 1,
    };
}

static enum ks_outcome write_letters(const struct ks_letter *letters, uint32_t count)
{
    uint32_t before = heard.calls;

    store->vtable->write(store, letters, count, answered, NULL);
    wait_from(before);
    return heard.outcome;
}

static enum ks_outcome write_one(const char *id, size_t data_size)
{
    struct ks_letter one = letter(id, data_size);

    return write_letters(&one, 1);
}

static enum ks_outcome list(const char *after, uint32_t most)
{
    uint32_t before = heard.calls;

    store->vtable->list(store, ks_view_text(after), most, answered, NULL);
    wait_from(before);
    return heard.outcome;
}

static enum ks_outcome find(const char *id)
{
    uint32_t before = heard.calls;

    store->vtable->find(store, ks_view_text(id), answered, NULL);
    wait_from(before);
    return heard.outcome;
}

static enum ks_outcome take_away(const char *id)
{
    uint32_t before = heard.calls;

    store->vtable->remove(store, ks_view_text(id), answered, NULL);
    wait_from(before);
    return heard.outcome;
}

static enum ks_outcome amend(const char *id, uint32_t attempts)
{
    uint32_t before = heard.calls;
    struct ks_letter said = letter(id, 0);

    said.attempts = attempts;
    said.reason = KS_VIEW("second");
    said.cause = KS_CAUSE_ATTEMPTS;
    store->vtable->amend(store, &said, answered, NULL);
    wait_from(before);
    return heard.outcome;
}

/* ---- Letters that are delivered again ---- */

TEST(what_was_given_up_again_says_so_and_keeps_the_rest)
{
    begin();
    EXPECT_EQ_I64(write_one("a", 1000), KS_DONE);
    EXPECT_EQ_I64(amend("a", 7), KS_DONE);
    restart();
    EXPECT_EQ_I64(find("a"), KS_DONE);
    EXPECT_EQ_I64(heard.attempts, 7);
    EXPECT_STR(heard.reason, "second");
    EXPECT_EQ_U64(heard.data_size, 1000);
    end();
}

TEST(what_was_removed_does_not_come_back_by_being_given_up_again)
{
    begin();
    EXPECT_EQ_I64(write_one("a", 10), KS_DONE);
    EXPECT_EQ_I64(take_away("a"), KS_DONE);
    EXPECT_EQ_I64(amend("a", 2), KS_REFUSED);
    EXPECT_EQ_I64(take_away("a"), KS_REFUSED);
    EXPECT_EQ_I64(find("a"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
    end();
}

TEST(two_processes_share_a_file_and_one_of_them_removes_a_letter)
{
    struct ks_dead_letters *first;

    begin();
    first = store;
    EXPECT_EQ_I64(write_one("a", 10), KS_DONE);
    EXPECT_OK(open_store());
    EXPECT_EQ_I64(take_away("a"), KS_DONE);
    store->vtable->close(store);
    store = first;
    EXPECT_EQ_I64(amend("a", 2), KS_REFUSED);
    EXPECT_EQ_I64(take_away("a"), KS_REFUSED);
    end();
}

/* ---- Lists ---- */

TEST(pages_end_at_their_count_and_at_their_bytes_and_no_letter_is_missed_or_told_twice)
{
    static const uint32_t sizes[] = {1, 5, 1000};
    struct ks_letter letters[20];
    char ids[20][8];

    begin();
    for (uint32_t i = 0; i < 20; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%02u", i);
        letters[i] = letter(ids[i], MIB - 100);
    }
    EXPECT_EQ_I64(write_letters(letters, 10), KS_DONE);
    EXPECT_EQ_I64(write_letters(letters + 10, 10), KS_DONE);
    for (uint32_t s = 0; s < 3; s++) {
        char after[8] = "";
        uint32_t seen = 0;

        do {
            EXPECT_EQ_I64(list(after, sizes[s]), KS_DONE);
            EXPECT(heard.count > 0 && heard.count <= sizes[s]);
            EXPECT((uint64_t)heard.count * MIB <= KS_LETTERS_BYTES_MAX + MIB);
            for (uint32_t i = 0; i < heard.count; i++)
                EXPECT_STR(heard.ids[i], ids[seen++]);
            (void)snprintf(after, sizeof after, "%s", heard.ids[heard.count - 1]);
        } while (heard.more);
        EXPECT_EQ_I64(seen, 20);
    }
    end();
}

TEST(a_letter_larger_than_a_page_is_a_page)
{
    static uint8_t large[KS_RECORD_BYTES_MAX];
    struct ks_letter letters[2] = {letter("a", 0), letter("b", 10)};

    begin();
    letters[0].data = ks_view_of(large, sizeof large);
    EXPECT_EQ_I64(write_letters(letters, 2), KS_DONE);
    EXPECT_EQ_I64(list("", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT(heard.more);
    EXPECT_EQ_U64(heard.data_size, sizeof large);
    EXPECT_EQ_I64(list("a", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT(!heard.more);
    end();
}

/* ---- What the world does ---- */

/* Writes, gives up again and removes letter after letter, and says each that is done. */
static void work_until_killed(int said_to)
{
    begin();
    for (uint32_t i = 0;; i++) {
        char id[8];
        char said;

        (void)snprintf(id, sizeof id, "%06u", i % 1000000);
        said = write_one(id, 5000) == KS_DONE ? 'w' : 'x';
        if (write(said_to, &said, 1) != 1)
            _exit(1);
        if (i % 3 == 0)
            continue;
        said = (i % 3 == 1 ? amend(id, 9) : take_away(id)) == KS_DONE ? 'c' : 'x';
        if (write(said_to, &said, 1) != 1)
            _exit(1);
    }
}

/* What stands in the store of the letters that were told, in order. */
static void check_letters(const char *said, size_t size)
{
    size_t at = 0;

    begin();
    for (uint32_t i = 0; at < size; i++) {
        char id[8];
        bool changed;

        (void)snprintf(id, sizeof id, "%06u", i % 1000000);
        EXPECT_EQ_I64(said[at++], 'w');
        EXPECT_EQ_I64(find(id), KS_DONE);
        if (i % 3 == 0) {
            EXPECT_EQ_I64(heard.count, 1);
            continue;
        }
        changed = at < size && said[at++] == 'c';
        if (!changed)
            break; /* It may be either way. */
        if (i % 3 == 1)
            EXPECT_EQ_I64(heard.attempts, 9);
        EXPECT_EQ_I64(heard.count, i % 3 == 1 ? 1 : 0);
    }
    end();
}

TEST(what_was_done_before_a_kill_is_done_after_it)
{
    static const char *const applications[] = {"a", "b", "c", "d", "e"};

    for (int round = 0; round < 5; round++) {
        static char said[1 << 16];
        size_t size = 0;
        ssize_t some;
        int ends[2];
        pid_t child;

        application = applications[round];
        EXPECT(pipe(ends) == 0);
        child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            work_until_killed(ends[1]);
        }
        (void)close(ends[1]);
        while (size < 20 + (size_t)round * 7) {
            some = read(ends[0], said + size, sizeof said - size);
            EXPECT(some > 0);
            size += (size_t)some;
        }
        EXPECT(kill(child, SIGKILL) == 0);
        EXPECT(waitpid(child, NULL, 0) == child);
        while ((some = read(ends[0], said + size, sizeof said - size)) > 0)
            size += (size_t)some;
        (void)close(ends[0]);
        check_letters(said, size);
    }
}

/* No file of this process grows beyond so many bytes: as on a full disk. */
static void fill_disk(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    EXPECT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

TEST(a_full_disk_refuses_all_of_a_write_and_loses_nothing_that_was_done)
{
    struct ks_letter letters[8];
    char ids[8][8];

    begin();
    EXPECT_EQ_I64(write_one("before", 1000), KS_DONE);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "b%u", i);
        letters[i] = letter(ids[i], MIB);
    }
    fill_disk(2 * MIB);
    EXPECT(write_letters(letters, 8) != KS_DONE);
    EXPECT_CONTAINS(heard.detail, "letters.db");
    EXPECT_EQ_I64(list("", 20), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    fill_disk(RLIM_INFINITY);
    EXPECT_EQ_I64(write_letters(letters, 8), KS_DONE);
    restart();
    EXPECT_EQ_I64(list("", 5), KS_DONE);
    EXPECT_STR(heard.ids[0], "b0");
    EXPECT_EQ_I64(find("before"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    end();
}

TEST(a_disk_that_is_full_to_the_last_byte_keeps_a_letter_that_is_to_be_removed_or_given_up_again)
{
    begin();
    EXPECT_EQ_I64(write_one("a", 1000), KS_DONE);
    fill_disk(1);
    EXPECT_EQ_I64(take_away("a"), KS_UNKNOWN);
    EXPECT_EQ_I64(amend("a", 5), KS_UNKNOWN);
    fill_disk(RLIM_INFINITY);
    EXPECT_EQ_I64(find("a"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_EQ_I64(heard.attempts, 1);
    EXPECT_EQ_I64(take_away("a"), KS_DONE);
    end();
}

/* Everything behind the first pages becomes nonsense. */
static void damage(void)
{
    uint8_t nonsense[4096];
    struct stat about;
    int file = open(path(), O_RDWR);

    EXPECT(file >= 0 && fstat(file, &about) == 0);
    memset(nonsense, 0xa5, sizeof nonsense);
    for (off_t at = 4096; at < about.st_size; at += 4096)
        EXPECT(pwrite(file, nonsense, sizeof nonsense, at) == 4096);
    EXPECT(close(file) == 0);
}

TEST(a_damaged_file_is_told_and_no_letter_is_made_up)
{
    begin();
    for (uint32_t i = 0; i < 20; i++) {
        char id[8];

        (void)snprintf(id, sizeof id, "%02u", i);
        EXPECT_EQ_I64(write_one(id, 3000), KS_DONE);
    }
    end();
    damage();
    EXPECT_OK(ks_loop_new(&loop));
    if (!ks_ok(open_store())) {
        EXPECT(why.text[0] != '\0');
        ks_loop_free(loop);
        return;
    }
    EXPECT_EQ_I64(list("", 20), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail, "malformed");
    EXPECT_EQ_I64(heard.count, 0);
    EXPECT_EQ_I64(find("03"), KS_UNKNOWN);
    EXPECT(write_one("new", 10) != KS_DONE);
    EXPECT(take_away("03") != KS_DONE);
    end();
}

TEST(every_allocation_of_a_letter_that_fails_is_an_answer_and_leaves_it_as_it_was)
{
    begin();
    EXPECT_EQ_I64(write_one("a", 1000), KS_DONE);
    for (uint64_t n = 1; n < 12; n++) {
        enum ks_outcome amended;
        uint32_t before = heard.calls;
        struct ks_letter said = letter("a", 0);

        said.attempts = 100 + (uint32_t)n;
        ks_alloc_fail_after(n, 0);
        store->vtable->amend(store, &said, answered, NULL);
        if (heard.calls == before)
            wait_from(before);
        ks_alloc_fail_after(0, 0);
        amended = heard.outcome;
        EXPECT(amended == KS_DONE || amended == KS_UNKNOWN);
        EXPECT_EQ_I64(find("a"), KS_DONE);
        EXPECT_EQ_I64(heard.count, 1);
        EXPECT_EQ_U64(heard.data_size, 1000);
        if (amended == KS_DONE)
            EXPECT_EQ_I64(heard.attempts, said.attempts);
    }
    end();
}
