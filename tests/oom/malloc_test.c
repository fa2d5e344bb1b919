/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails, for every n, also those of the libraries: this program has its own malloc.
 *
 * A story is told twice, so that what is made once is there, and then once for each n, with one allocation failing and
 * with all from the n-th on; until none fails any more. Whatever the story says then, it ends, it keeps nothing, and
 * it can be told again. Inputs are those that fuzzing begins with. The unit tests called every_allocation_.. do this
 * to our own allocations, in more places.
 *
 * One thing has no way to go on without memory, and aborts: a hash (base/digest.c).
 */
#include "adapters/asks.h"
#include "adapters/dynamodb/wire.h"
#include "adapters/kinesis/aggregate.h"
#include "adapters/kinesis/records.h"
#include "adapters/local/db.h"
#include "adapters/local/put.h"
#include "adapters/local/read.h"
#include "adapters/sqlite/table.h"
#include "api/codec_json.h"
#include "api/codec_proto.h"
#include "api/doors.h"
#include "api/gzip.h"
#include "api/http1.h"
#include "api/http2.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/options.h"

#include "ks_test.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- An allocator that fails --- */

static int64_t live; /* Not freed yet; counted where it is ours. */
static uint64_t fail_at;
static uint64_t failures;

/* A sanitizer has an allocator of its own, which does not fail: there ours alone does. */
#ifdef __SANITIZE_ADDRESS__
static void fail_after(uint64_t n, bool later)
{
    failures = n == 0 && ks_alloc_count() >= fail_at;
    fail_at = ks_alloc_count() + n;
    ks_alloc_fail_after(n, later);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static uint64_t calls;
static bool all_later;

static bool may_allocate(void)
{
    uint64_t number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

    if (fail_at == 0 || number < fail_at || (number > fail_at && !all_later))
        return true;
    (void)__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return false;
}

static void *counted(void *memory)
{
    if (memory != NULL)
        (void)__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return memory;
}

void *malloc(size_t size)
{
    return may_allocate() ? counted(__libc_malloc(size)) : NULL;
}

void *calloc(size_t count, size_t size)
{
    return may_allocate() ? counted(__libc_calloc(count, size)) : NULL;
}

void *realloc(void *memory, size_t size)
{
    if (!may_allocate())
        return NULL;
    return memory == NULL ? counted(__libc_malloc(size)) : __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
    return may_allocate() ? counted(__libc_memalign(alignment, size)) : NULL;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
    void *memory = memalign(alignment, size);

    if (memory == NULL)
        return ENOMEM;
    *ret_memory = memory;
    return 0;
}

void free(void *memory)
{
    if (memory != NULL)
        (void)__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    __libc_free(memory);
}

static void fail_after(uint64_t n, bool later)
{
    if (n != 0)
        failures = 0;
    all_later = later;
    fail_at = n == 0 ? 0 : calls + n;
}
#endif

/* --- Telling a story --- */

enum {
    STORY_ALLOCATIONS_MAX = 5000,
    KEPT_MAX =
        8 /* What a library makes at its first failure and keeps: OpenSSL's queue of errors. */
};

/* Tells it for each n; true as its result where all went well, whatever failed. */
static void tell(bool (*story)(void), bool later)
{
    uint64_t told = 0;

    EXPECT(story());
    EXPECT(story());
    const int64_t ours = ks_alloc_live();
    const int64_t before = live;
    for (uint64_t n = 1;; n++) {
        fail_after(n, later);
        bool good = story();
        fail_after(0, false);
        EXPECT_EQ_I64(ks_alloc_live(), ours);
        told = n;
        if (failures == 0) {
            EXPECT(good);
            break;
        }
        EXPECT(n < STORY_ALLOCATIONS_MAX);
    }
    EXPECT(told > 1);
    EXPECT(live - before <= KEPT_MAX);
    EXPECT(story());
    printf("%llu allocations\n", (unsigned long long)(told - 1));
}

static void tell_both(bool (*story)(void))
{
    tell(story, false);
    tell(story, true);
}

/* In the folder of the test; the same at each call. */
static const char *place_of(const char *name)
{
    static char path[100];

    EXPECT(snprintf(path, sizeof(path), "%s/%s", ks_test_dir(), name) < (int)sizeof(path));
    return path;
}

static uint8_t input[1 << 20];

/* An input of tests/fuzz. */
static ks_view corpus(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    ssize_t size = read(fd, input, sizeof(input));
    EXPECT(size > 0 && size < (ssize_t)sizeof(input));
    EXPECT(close(fd) == 0);
    return ks_view_of(input, (size_t)size);
}

/* It failed for want of memory, if it failed. */
static bool went_well(ks_err err)
{
    if (!ks_ok(err))
        EXPECT_ERR(err, NO_MEMORY);
    return ks_ok(err);
}

/* --- Options --- */

static bool options_are_read(void)
{
    static char name[] = "ks";
    static char file[] = "--config=tests/oom/config.json";
    static struct ks_options options;
    char *const words[] = {name, file, NULL};
    char *const none[] = {NULL};
    struct ks_detail detail = {""};
    ks_err err = ks_options_read(2, words, none, &options, &detail);

    if (ks_ok(err))
        ks_options_free(&options);
    else if (!ks_err_is(err, KS_ERR_NO_MEMORY))
        FAIL("%s", detail.text);
    return ks_ok(err);
}

TEST(options_and_their_file)
{
    tell_both(options_are_read);
}

/* --- Messages of apps --- */

static bool message_as_json(void)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_arena arena;
    struct ks_writer json;
    struct ks_bytes out;

    ks_arena_init(&arena, 1 << 20);
    ks_bytes_init(&out, 1 << 20);
    ks_err err =
        ks_rest_read(ks_view_of(input, strlen((char *)input)),
                     &kinesis_sidecar__v1__settle_request__descriptor, &arena, &message, &detail);
    if (ks_ok(err)) {
        ks_writer_begin(&json, &out);
        ks_writer_open(&json, '{');
        ks_rest_members(&json, message);
        ks_writer_close(&json, '}');
        err = ks_writer_end(&json);
    }
    ks_bytes_free(&out);
    ks_arena_free(&arena);
    return ks_ok(err);
}

TEST(a_message_in_json)
{
    input[corpus("json_request/settle.json").size] = '\0';
    tell_both(message_as_json);
}

static ks_view body;

static bool message_as_protobuf(void)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_arena arena;
    struct ks_bytes out;

    ks_arena_init(&arena, ks_proto_room(body.size));
    ks_bytes_init(&out, 1 << 20);
    ks_err err = ks_proto_read(body, &kinesis_sidecar__v1__settle_request__descriptor, &arena,
                               &message, &detail);
    if (ks_ok(err))
        err = ks_proto_write(message, true, &out);
    ks_bytes_free(&out);
    ks_arena_free(&arena);
    return ks_ok(err);
}

TEST(a_message_in_protobuf)
{
    body = corpus("proto_request/settle");
    tell_both(message_as_protobuf);
}

static bool packed_and_unpacked(void)
{
    struct ks_bytes packed;
    struct ks_bytes unpacked;

    ks_bytes_init(&packed, 1 << 20);
    ks_bytes_init(&unpacked, 1 << 20);
    ks_err err = ks_gzip_pack(body, &packed);
    if (ks_ok(err))
        err = ks_gzip_unpack(ks_bytes_view(&packed), &unpacked);
    if (ks_ok(err))
        EXPECT(ks_view_equal(ks_bytes_view(&unpacked), body));
    ks_bytes_free(&packed);
    ks_bytes_free(&unpacked);
    return went_well(err);
}

TEST(gzip)
{
    body = corpus("records_json/00");
    tell_both(packed_and_unpacked);
}

/* --- Answers of AWS --- */

static bool rows_are_read(void)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_json *answer = NULL;
    struct ks_detail detail = {""};
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, 1 << 20);
    ks_err err = ks_json_parse(body, &answer);
    const struct ks_json *items = ks_ok(err) ? ks_json_member(answer, "Items") : NULL;
    for (size_t at = 0; ks_ok(err) && at < ks_json_count(items); at++) {
        err = ks_dynamodb_read_item(ks_json_item(items, at), &ks_native_schema, &texts, &item);
        if (ks_ok(err))
            err = ks_native_rows_add(&rows, &item, &detail);
    }
    ks_native_rows_free(&rows);
    ks_json_free(answer);
    ks_bytes_free(&texts);
    return went_well(err);
}

TEST(rows_of_the_lease_table)
{
    body = corpus("lease_rows/all");
    tell_both(rows_are_read);
}

static ks_err (*scan)(struct ks_block *block, size_t begin, uint32_t records_max,
                      struct ks_records *ret_records);

static bool records_are_scanned(void)
{
    struct ks_budget budget;
    struct ks_records records;
    struct ks_block *block;

    ks_budget_init(&budget, 1 << 20);
    /* Without room for the records: they move. */
    ks_err err = ks_block_new(&budget, body.size, &block);
    if (ks_ok(err)) {
        memcpy(block->data, body.data, body.size);
        block->size = body.size;
        err = scan(block, 0, 100, &records);
    }
    if (ks_ok(err))
        ks_batch_free(&records.batch);
    EXPECT_EQ_U64(budget.used, 0);
    return went_well(err);
}

TEST(records_in_json)
{
    scan = ks_records_json;
    body = corpus("records_json/00");
    tell_both(records_are_scanned);
}

TEST(records_in_cbor)
{
    scan = ks_records_cbor;
    body = corpus("records_cbor/00");
    tell_both(records_are_scanned);
}

static bool aggregate_is_opened(void)
{
    struct ks_budget budget;
    struct ks_aggregate aggregate;
    struct ks_user_record record;

    ks_budget_init(&budget, 1 << 20);
    ks_err err = ks_aggregate_open(body, &budget, &aggregate);
    if (ks_ok(err)) {
        while (ks_aggregate_next(&aggregate, NULL, &record))
            continue;
        ks_aggregate_close(&aggregate);
    }
    EXPECT_EQ_U64(budget.used, 0);
    return went_well(err);
}

TEST(an_aggregate)
{
    static const uint8_t magic[] = {0xF3, 0x89, 0x9A, 0xC2};
    static uint8_t whole[1 << 16];
    ks_view message = corpus("aggregate/00");

    memcpy(whole, magic, sizeof(magic));
    memcpy(whole + sizeof(magic), message.data, message.size);
    ks_md5(message, whole + sizeof(magic) + message.size);
    body = ks_view_of(whole, sizeof(magic) + message.size + KS_MD5_SIZE);
    EXPECT(ks_is_aggregate(body));
    tell_both(aggregate_is_opened);
}

/* --- SQLite --- */

static struct ks_ask_work *new_work(enum ks_store_operation operation)
{
    struct ks_ask_work *work = ks_alloc(sizeof(*work));

    if (work == NULL)
        return NULL;
    work->operation = operation;
    work->outcome = KS_UNKNOWN;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(10000));
    return work;
}

/* A write is done, refused or unknown, and says why it is unknown. */
static bool perform(struct ks_sqlite_table *table, const struct ks_store_request *request)
{
    struct ks_ask_work *work = new_work(request->operation);
    struct ks_detail detail = {""};
    ks_err err;

    if (work == NULL)
        return false;
    err = ks_native_writes(request->operation)
              ? ks_native_write(request, &work->write, &detail)
              : ks_native_read(request, &work->partition, &work->keys);
    if (ks_ok(err)) {
        ks_sqlite_table_perform(table, work);
        err = work->err;
        EXPECT((work->outcome == KS_UNKNOWN) == !ks_ok(err));
    }
    if (!ks_ok(err) && !ks_err_is(err, KS_ERR_NO_MEMORY))
        FAIL("%s: %s", ks_store_operation_name(request->operation), work->detail.text);
    ks_ask_work_free(work);
    return went_well(err);
}

static bool leases_are_kept(void)
{
    static struct ks_store_lease lease = {.shard = "shardId-000000000001",
                                          .checkpoint = {.sub_sequence = -1}};
    const struct ks_store_request requests[] = {
        {.operation = KS_STORE_CREATE, .lease = &lease},
        {.operation = KS_STORE_READ_LEASES},
        {.operation = KS_STORE_READ_NEWS, .worker = {"a", 1}},
    };
    struct ks_sqlite_table *table = NULL;
    struct ks_detail detail = {""};
    bool good = went_well(ks_sqlite_table_open(place_of("leases.db"), "app", &table, &detail));

    if (!good)
        return false;
    for (size_t at = 0; at < sizeof(requests) / sizeof(requests[0]); at++)
        good = perform(table, &requests[at]) && good;
    ks_sqlite_table_close(table);
    return good;
}

TEST(a_lease_table_in_sqlite)
{
    tell(leases_are_kept, false);
}

TEST(a_lease_table_in_sqlite_without_any_memory)
{
    tell(leases_are_kept, true);
}

static ks_err read_again(struct ks_local_db *db)
{
    struct ks_local_cursor cursor = {.shard = "shardId-000000000000",
                                     .from = {.kind = KS_POSITION_TRIM_HORIZON}};
    struct ks_detail detail = {""};
    struct ks_local_look look;
    struct ks_batch batch;
    struct ks_block *block;

    KS_TRY(ks_local_look(db, &cursor, 1, 1000, 1, &look, &detail));
    KS_TRY(ks_block_new(NULL, look.block_bytes, &block));
    ks_err err = ks_local_fill(db, &cursor, &look, block, &batch, &detail);
    ks_block_drop(block);
    return err;
}

static ks_err put_one(struct ks_local_db *db)
{
    /* Or it would be made of the partition key, by a hash. */
    struct ks_put_entry entry = {
        .partition_key = KS_VIEW("k"), .explicit_hash_key = KS_VIEW("7"), .data = KS_VIEW("data")};
    struct ks_detail detail = {""};
    struct ks_local_put *put;
    struct ks_link puts;

    KS_TRY(ks_local_put_new(&entry, 1, &put, &detail));
    ks_link_init(&puts);
    ks_list_append(&puts, &put->link);
    ks_local_put_write(db, &puts, 1);
    ks_err err = put->err;
    ks_free(put);
    return err;
}

static bool records_are_put_and_read(void)
{
    struct ks_local_db *db = NULL;
    struct ks_detail detail = {""};
    ks_err err = ks_local_db_open(place_of("stream.db"), "demo", 1, &db, &detail);

    if (ks_ok(err))
        err = put_one(db);
    if (ks_ok(err))
        err = read_again(db);
    ks_local_db_close(db);
    return went_well(err);
}

TEST(a_local_stream)
{
    tell(records_are_put_and_read, false);
}

TEST(a_local_stream_without_any_memory)
{
    tell(records_are_put_and_read, true);
}

/* --- HTTP --- */

static struct ks_api api;
static const char *said; /* What a good answer holds. */

static void echo(struct ks_exchange *exchange)
{
    ks_exchange_reply(exchange, 200, "text/plain", &exchange->request.body);
}

static const struct ks_route *find_route(struct ks_exchange *exchange)
{
    static const struct ks_route route = {
        echo, KS_DOOR_OPS, KS_WHO_APP, KS_METHOD_POST, "/", "", KS_ROUTE_ANY, KS_BODY_MESSAGE, ""};

    (void)exchange;
    return &route;
}

static void open_doors(void)
{
    static char listen[2][200];
    struct ks_detail detail = {""};
    struct ks_doors_config doors = {
        .listen = listen[0], .ops_listen = listen[1], .connections_max = 4};

    (void)snprintf(listen[0], sizeof(listen[0]), "unix:%s", place_of("api"));
    (void)snprintf(listen[1], sizeof(listen[1]), "unix:%s", place_of("ops"));
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    EXPECT_OK(ks_loop_new(&api.loop));
    api.request_bytes_max = 1000;
    api.find_more = find_route;
    doors.loop = api.loop;
    doors.accounts = &api.accounts;
    doors.ops_accounts = &api.ops_accounts;
    ks_accounts_begin(&api.accounts, api.loop, 0, false);
    ks_accounts_begin(&api.ops_accounts, api.loop, 0, true);
    EXPECT_OK(ks_http1_new(&api, api.loop, &api.http1));
    EXPECT_OK(ks_http2_new(&api, api.loop, &api.http2));
    doors.http1 = api.http1;
    doors.http2 = api.http2;
    EXPECT_OK(ks_doors_new(&doors, &api.doors, &detail));
}

static void close_doors(void)
{
    ks_doors_free(api.doors);
    ks_http1_free(api.http1);
    ks_http2_free(api.http2);
    ks_accounts_end(&api.accounts);
    ks_accounts_end(&api.ops_accounts);
    ks_loop_free(api.loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* True for what refuses: an answer of HTTP/1.1 that is none of 200; of HTTP/2 the end of stream 1, RST_STREAM or
 * GOAWAY. */
static bool ends(ks_view heard)
{
    enum { HEADERS = 1, RST_STREAM = 3, GOAWAY = 7, FRAME_HEAD = 9, END_STREAM = 1 };

    if (ks_view_starts(heard, KS_VIEW("HTTP/1.1 ")))
        return !ks_view_starts(heard, KS_VIEW("HTTP/1.1 200")) &&
               memmem(heard.data, heard.size, "\r\n\r\n", 4) != NULL;
    while (heard.size >= FRAME_HEAD) {
        size_t size =
            FRAME_HEAD + ((size_t)heard.data[0] << 16 | (size_t)heard.data[1] << 8 | heard.data[2]);

        bool last =
            heard.data[3] <= HEADERS && (heard.data[4] & END_STREAM) != 0 && heard.data[8] == 1;
        if (last || heard.data[3] == RST_STREAM || heard.data[3] == GOAWAY)
            return true;
        if (size > heard.size)
            return false;
        heard = ks_view_of(heard.data + size, heard.size - size);
    }
    return false;
}

/* Says it on a connection of its own, and turns until there is the answer, or the other side closes. */
static bool converse(void)
{
    static char heard[1 << 16];
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    size_t size = 0;
    ssize_t got = -1;
    bool good = false;
    bool ended = false;

    (void)snprintf(place.sun_path, sizeof(place.sun_path), "%s", place_of("ops"));
    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&place, sizeof(place)) == 0);
    EXPECT_EQ_I64(send(fd, body.data, body.size, MSG_NOSIGNAL), body.size);
    for (int turns = 0; turns < 200 && got != 0 && !good && !ended; turns++) {
        ks_loop_turn(api.loop, ks_span_ms(turns < 20 ? 0 : 10));
        got = recv(fd, heard + size, sizeof(heard) - size, MSG_DONTWAIT);
        size += got > 0 ? (size_t)got : 0;
        good = memmem(heard, size, said, strlen(said)) != NULL;
        ended = ends(ks_view_of(heard, size));
    }
    if (got != 0 && !good && !ended)
        FAIL("neither an answer nor an end: %.100s", heard);
    EXPECT(close(fd) == 0);
    for (int turns = 0; turns < 20; turns++)
        ks_loop_turn(api.loop, ks_span_ms(0));
    EXPECT(!ks_http1_busy(api.http1) && !ks_http2_busy(api.http2));
    EXPECT_EQ_U64(api.ops_accounts.held[KS_HELD_BODIES], 0);
    return good;
}

static void converse_in_spite(const char *request, const char *answer)
{
    open_doors();
    body = ks_view_text(request);
    said = answer;
    tell_both(converse);
    close_doors();
}

TEST(a_request_of_http_1)
{
    converse_in_spite("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
                      "\r\n\r\nhello");
}

TEST(a_request_of_http_1_in_chunks)
{
    converse_in_spite("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                      "\r\n\r\nhello");
}

TEST(a_request_of_http_2)
{
    static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static uint8_t all[4096];
    ks_view frames = corpus("http2/body");

    open_doors();
    memcpy(all, opening, sizeof(opening) - 1);
    memcpy(all + sizeof(opening) - 1, frames.data, frames.size);
    body = ks_view_of(all, sizeof(opening) - 1 + frames.size);
    said = "{}";
    tell_both(converse);
    close_doors();
}

/* --- What has no way to go on --- */

#ifndef __SANITIZE_ADDRESS__
static void hash_without_memory(void)
{
    const struct rlimit none = {0, 0};
    uint8_t digest[KS_SHA256_SIZE];

    EXPECT(setrlimit(RLIMIT_CORE, &none) == 0);
    ks_sha256(KS_VIEW("a"), digest);
    fail_after(1, true);
    ks_sha256(KS_VIEW("a"), digest);
}

TEST(a_hash_without_memory_aborts_and_is_never_wrong)
{
    int status = 0;
    pid_t child = fork();

    EXPECT(child >= 0);
    if (child == 0) {
        (void)close(STDERR_FILENO);
        hash_without_memory();
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif
