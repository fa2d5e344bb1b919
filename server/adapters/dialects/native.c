/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/native.h"

#include "adapters/dialects/native_words.h"

#include <assert.h>
#include <inttypes.h>

/* --- What each operation writes (PROTOCOL A3, A5) --- */

/* Where a value comes from. One that is not there (no owner, no sub-sequence number) turns EQUALS into ABSENT and SET
 * into REMOVE; an empty set leaves its clause out. */
enum source {
    NOTHING,
    /* Constants. */
    ZERO,
    ONE,
    TRUTH,
    LIVE,
    FENCED,
    GONE,
    FENCED_OR_GONE,
    /* Of the request. */
    OWN_BOOT,
    EXPECT_BOOT,
    EXPECT_BEAT,
    MODE,
    HELD,
    CHANGES,
    CAPACITY,
    LOAD,
    VERSION,
    GIVES,
    TAKES,
    WORKER,
    OWNER,
    OWNER_OR_NONE,
    NEXT_OWNER_OR_NONE,
    DEPUTIES,
    EPOCH,
    NEXT_EPOCH,
    REV,
    NEXT_REV,
    POSITION,
    POSITION_SUB,
    POSITION_MS,
    PARENTS,
    CHILDREN,
    HASH_START,
    HASH_END,
    STREAM_ARN,
    STREAM_CREATED,
    FINISHED,
    MENDED_EPOCH,
    MENDED_REV
};

enum row { NO_ROW, WORKER_ROW, LEADER_ROW, APP_ROW, LEASE_ROW };

struct condition {
    enum ks_condition_kind kind;
    enum ks_native_attribute attribute;
    enum source source;
};

struct update {
    enum ks_update_kind kind; /* 0 ends the list. */
    enum ks_native_attribute attribute;
    enum source source;
};

struct plan {
    enum row row; /* NO_ROW: the operation does not write. */
    struct condition conditions[KS_ITEM_CONDITIONS_MAX];
    const struct update *updates; /* NULL: the row is deleted. */
};

static const struct update registration[] = {
    {KS_DO_SET, KS_NATIVE_BOOT, OWN_BOOT},     {KS_DO_SET, KS_NATIVE_LIFE, LIVE},
    {KS_DO_SET, KS_NATIVE_MODE, MODE},         {KS_DO_SET, KS_NATIVE_BEAT, ZERO},
    {KS_DO_SET, KS_NATIVE_HELD, ZERO},         {KS_DO_SET, KS_NATIVE_CHANGES, ZERO},
    {KS_DO_SET, KS_NATIVE_CAPACITY, CAPACITY}, {KS_DO_SET, KS_NATIVE_LOAD, ZERO},
    {KS_DO_SET, KS_NATIVE_VERSION, VERSION},   {KS_DO_REMOVE, KS_NATIVE_GIVE, NOTHING},
    {KS_DO_REMOVE, KS_NATIVE_TAKE, NOTHING},   {0},
};

static const struct update new_owner[] = {
    {KS_DO_SET, KS_NATIVE_OWNER, WORKER},
    {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
    {KS_DO_REMOVE, KS_NATIVE_NEXT_OWNER, NOTHING},
    {0},
};

static const struct plan plans[KS_STORE_OPERATIONS] = {
    [KS_STORE_REGISTER_NEW] = {WORKER_ROW, {{KS_IF_ABSENT, KS_NATIVE_ROW, NOTHING}}, registration},
    [KS_STORE_REGISTER_DEAD] = {WORKER_ROW,
                                {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT},
                                 {KS_IF_IN, KS_NATIVE_LIFE, FENCED_OR_GONE}},
                                registration},
    [KS_STORE_REGISTER_SILENT] = {WORKER_ROW,
                                  {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT},
                                   {KS_IF_EQUALS, KS_NATIVE_BEAT, EXPECT_BEAT},
                                   {KS_IF_EQUALS, KS_NATIVE_LIFE, LIVE}},
                                  registration},
    [KS_STORE_REGISTER_CORPSE] = {WORKER_ROW,
                                  {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT}},
                                  registration},
    [KS_STORE_HEARTBEAT] = {WORKER_ROW,
                            {{KS_IF_EQUALS, KS_NATIVE_BOOT, OWN_BOOT},
                             {KS_IF_EQUALS, KS_NATIVE_LIFE, LIVE}},
                            (const struct update[]){{KS_DO_ADD, KS_NATIVE_BEAT, ONE},
                                                    {KS_DO_SET, KS_NATIVE_MODE, MODE},
                                                    {KS_DO_SET, KS_NATIVE_HELD, HELD},
                                                    {KS_DO_SET, KS_NATIVE_CHANGES, CHANGES},
                                                    {KS_DO_SET, KS_NATIVE_CAPACITY, CAPACITY},
                                                    {KS_DO_SET, KS_NATIVE_LOAD, LOAD},
                                                    {KS_DO_DELETE, KS_NATIVE_GIVE, GIVES},
                                                    {KS_DO_DELETE, KS_NATIVE_TAKE, TAKES},
                                                    {0}}},
    [KS_STORE_FENCE] = {WORKER_ROW,
                        {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT},
                         {KS_IF_EQUALS, KS_NATIVE_BEAT, EXPECT_BEAT},
                         {KS_IF_EQUALS, KS_NATIVE_LIFE, LIVE}},
                        (const struct update[]){{KS_DO_SET, KS_NATIVE_LIFE, FENCED}, {0}}},
    [KS_STORE_SAY_GONE] = {WORKER_ROW,
                           {{KS_IF_EQUALS, KS_NATIVE_BOOT, OWN_BOOT},
                            {KS_IF_EQUALS, KS_NATIVE_LIFE, LIVE}},
                           (const struct update[]){{KS_DO_SET, KS_NATIVE_LIFE, GONE}, {0}}},
    [KS_STORE_HINTS] = {WORKER_ROW,
                        {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT},
                         {KS_IF_EQUALS, KS_NATIVE_LIFE, LIVE}},
                        (const struct update[]){{KS_DO_ADD, KS_NATIVE_GIVE, GIVES},
                                                {KS_DO_ADD, KS_NATIVE_TAKE, TAKES},
                                                {0}}},
    [KS_STORE_REMOVE_WORKER] = {WORKER_ROW,
                                {{KS_IF_EQUALS, KS_NATIVE_BOOT, EXPECT_BOOT},
                                 {KS_IF_IN, KS_NATIVE_LIFE, FENCED_OR_GONE}},
                                NULL},
    [KS_STORE_CLAIM_OFFICE] = {LEADER_ROW,
                               {{KS_IF_EQUALS, KS_NATIVE_HOLDER, OWNER_OR_NONE},
                                {KS_IF_EQUALS_OR_ABSENT, KS_NATIVE_EPOCH, EPOCH}},
                               (const struct update[]){{KS_DO_SET, KS_NATIVE_HOLDER, WORKER},
                                                       {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
                                                       {0}}},
    [KS_STORE_RESIGN_OFFICE] = {LEADER_ROW,
                                {{KS_IF_EQUALS, KS_NATIVE_HOLDER, WORKER},
                                 {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                                (const struct update[]){{KS_DO_REMOVE, KS_NATIVE_HOLDER, NOTHING},
                                                        {0}}},
    [KS_STORE_NAME_DEPUTIES] = {LEADER_ROW,
                                {{KS_IF_EQUALS, KS_NATIVE_HOLDER, WORKER},
                                 {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                                (const struct update[]){{KS_DO_SET, KS_NATIVE_DEPUTIES, DEPUTIES},
                                                        {0}}},
    [KS_STORE_CREATE_APP] = {APP_ROW,
                             {{KS_IF_ABSENT, KS_NATIVE_ROW, NOTHING}},
                             (const struct update[]){
                                 {KS_DO_SET, KS_NATIVE_START, POSITION},
                                 {KS_DO_SET, KS_NATIVE_START_SUB, POSITION_SUB},
                                 {KS_DO_SET, KS_NATIVE_START_MS, POSITION_MS},
                                 {KS_DO_SET, KS_NATIVE_STREAM_ARN, STREAM_ARN},
                                 {KS_DO_SET, KS_NATIVE_STREAM_CREATED, STREAM_CREATED},
                                 {0}}},
    [KS_STORE_CREATE] = {LEASE_ROW,
                         {{KS_IF_ABSENT, KS_NATIVE_ROW, NOTHING}},
                         (const struct update[]){{KS_DO_SET, KS_NATIVE_EPOCH, ZERO},
                                                 {KS_DO_SET, KS_NATIVE_REV, ZERO},
                                                 {KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
                                                 {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
                                                 {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
                                                 {KS_DO_SET, KS_NATIVE_PARENTS, PARENTS},
                                                 {KS_DO_SET, KS_NATIVE_HASH_START, HASH_START},
                                                 {KS_DO_SET, KS_NATIVE_HASH_END, HASH_END},
                                                 {0}}},
    [KS_STORE_ASSIGN] = {LEASE_ROW,
                         {{KS_IF_ABSENT, KS_NATIVE_OWNER, NOTHING},
                          {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
                          {KS_IF_ABSENT, KS_NATIVE_FINISHED, NOTHING}},
                         (const struct update[]){{KS_DO_SET, KS_NATIVE_OWNER, WORKER},
                                                 {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
                                                 {0}}},
    [KS_STORE_TAKE_OVER] = {LEASE_ROW,
                            {{KS_IF_EQUALS, KS_NATIVE_OWNER, OWNER},
                             {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                            new_owner},
    [KS_STORE_PLAN] = {LEASE_ROW,
                       {{KS_IF_EQUALS, KS_NATIVE_OWNER, OWNER},
                        {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                       (const struct update[]){
                           {KS_DO_SET, KS_NATIVE_NEXT_OWNER, NEXT_OWNER_OR_NONE}, {0}}},
    [KS_STORE_FORCE] = {LEASE_ROW,
                        {{KS_IF_EQUALS, KS_NATIVE_OWNER, OWNER},
                         {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                        new_owner},
    [KS_STORE_CHECKPOINT] = {LEASE_ROW,
                             {{KS_IF_EQUALS, KS_NATIVE_OWNER, WORKER},
                              {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
                              {KS_IF_EQUALS, KS_NATIVE_REV, REV}},
                             (const struct update[]){
                                 {KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
                                 {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
                                 {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
                                 {KS_DO_SET, KS_NATIVE_LOAD, LOAD},
                                 {KS_DO_SET, KS_NATIVE_REV, NEXT_REV},
                                 {0}}},
    [KS_STORE_FINAL] = {LEASE_ROW,
                        {{KS_IF_EQUALS, KS_NATIVE_OWNER, WORKER},
                         {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
                         {KS_IF_EQUALS, KS_NATIVE_REV, REV},
                         {KS_IF_EQUALS, KS_NATIVE_NEXT_OWNER, NEXT_OWNER_OR_NONE}},
                        (const struct update[]){{KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
                                                {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
                                                {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
                                                {KS_DO_SET, KS_NATIVE_LOAD, LOAD},
                                                {KS_DO_SET, KS_NATIVE_OWNER, NEXT_OWNER_OR_NONE},
                                                {KS_DO_REMOVE, KS_NATIVE_NEXT_OWNER, NOTHING},
                                                {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
                                                {KS_DO_SET, KS_NATIVE_REV, NEXT_REV},
                                                {0}}},
    [KS_STORE_END] = {LEASE_ROW,
                      {{KS_IF_EQUALS, KS_NATIVE_OWNER, WORKER},
                       {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
                       {KS_IF_EQUALS, KS_NATIVE_REV, REV}},
                      (const struct update[]){{KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
                                              {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
                                              {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
                                              {KS_DO_SET, KS_NATIVE_CHILDREN, CHILDREN},
                                              {KS_DO_SET, KS_NATIVE_FINISHED, TRUTH},
                                              {KS_DO_REMOVE, KS_NATIVE_LOAD, NOTHING},
                                              {KS_DO_REMOVE, KS_NATIVE_OWNER, NOTHING},
                                              {KS_DO_REMOVE, KS_NATIVE_NEXT_OWNER, NOTHING},
                                              {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
                                              {KS_DO_SET, KS_NATIVE_REV, NEXT_REV},
                                              {0}}},
    [KS_STORE_DELETE] = {LEASE_ROW,
                         {{KS_IF_EQUALS, KS_NATIVE_FINISHED, TRUTH},
                          {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH}},
                         NULL},
    [KS_STORE_SEEK] = {LEASE_ROW,
                       {{KS_IF_EQUALS, KS_NATIVE_OWNER, WORKER},
                        {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
                        {KS_IF_EQUALS, KS_NATIVE_REV, REV},
                        {KS_IF_ABSENT, KS_NATIVE_NEXT_OWNER, NOTHING}},
                       (const struct update[]){{KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
                                               {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
                                               {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
                                               {KS_DO_SET, KS_NATIVE_EPOCH, NEXT_EPOCH},
                                               {KS_DO_SET, KS_NATIVE_REV, NEXT_REV},
                                               {0}}},
};

/* A row as a person wants it: the values are those of `lease`, but epoch and rev of a row never fall. */
static const struct update mended[] = {
    {KS_DO_SET, KS_NATIVE_OWNER, OWNER_OR_NONE},
    {KS_DO_SET, KS_NATIVE_NEXT_OWNER, NEXT_OWNER_OR_NONE},
    {KS_DO_SET, KS_NATIVE_EPOCH, MENDED_EPOCH},
    {KS_DO_SET, KS_NATIVE_REV, MENDED_REV},
    {KS_DO_SET, KS_NATIVE_CHECKPOINT, POSITION},
    {KS_DO_SET, KS_NATIVE_SUB, POSITION_SUB},
    {KS_DO_SET, KS_NATIVE_CHECKPOINT_MS, POSITION_MS},
    {KS_DO_SET, KS_NATIVE_PARENTS, PARENTS},
    {KS_DO_SET, KS_NATIVE_CHILDREN, CHILDREN},
    {KS_DO_SET, KS_NATIVE_HASH_START, HASH_START},
    {KS_DO_SET, KS_NATIVE_HASH_END, HASH_END},
    {KS_DO_SET, KS_NATIVE_FINISHED, FINISHED},
    {KS_DO_REMOVE, KS_NATIVE_LOAD, NOTHING},
    {0},
};

static const struct plan mend_plans[] = {
    {LEASE_ROW, {{KS_IF_ABSENT, KS_NATIVE_ROW, NOTHING}}, mended},
    {LEASE_ROW,
     {{KS_IF_EQUALS, KS_NATIVE_OWNER, OWNER_OR_NONE},
      {KS_IF_EQUALS, KS_NATIVE_NEXT_OWNER, NEXT_OWNER_OR_NONE},
      {KS_IF_EQUALS, KS_NATIVE_EPOCH, EPOCH},
      {KS_IF_EQUALS, KS_NATIVE_REV, REV},
      {KS_IF_EQUALS, KS_NATIVE_CHECKPOINT, POSITION}},
     mended},
};

static const struct plan *plan_of(const struct ks_store_request *request)
{
    return request->operation == KS_STORE_MEND ? &mend_plans[request->exists]
                                               : &plans[request->operation];
}

bool ks_native_writes(enum ks_store_operation operation)
{
    return operation >= KS_STORE_FIRST_WRITE;
}

/* --- Values */

enum {
    /* Of a write besides its tokens: an ARN, three incarnations, a position, shard ids, numbers. */
    FIXED_BYTES = 8192,
    TOKEN_BYTES = KS_SHARD_ID_MAX + 24
};

/* A value for a clause. */
struct drawn {
    bool absent; /* There is none: EQUALS becomes ABSENT, SET becomes REMOVE. */
    bool unsaid; /* The clause is left out. */
    struct ks_value value;
};

/* A C string of the request that may be absent. */
static ks_view text_of(const char *text)
{
    return text == NULL ? KS_VIEW_NONE : ks_view_text(text);
}

/* The value is what was appended to the texts of the write since they had `begin` bytes. */
static ks_err drawn_since(const struct ks_item_write *write, size_t begin, enum ks_value_type type,
                          struct drawn *drawn)
{
    drawn->value.type = type;
    drawn->value.text = ks_view_of(write->texts.data + begin, write->texts.size - begin);
    return KS_OK;
}

static ks_err draw_constant(enum ks_value_type type, const char *text, struct drawn *drawn)
{
    drawn->value = (struct ks_value){type, ks_view_text(text)};
    return KS_OK;
}

/* An empty text is absent. */
static ks_err draw_text(struct ks_item_write *write, ks_view text, struct drawn *drawn)
{
    drawn->absent = text.size == 0;
    drawn->value.type = KS_VALUE_TEXT;
    return ks_item_write_keep(write, text, &drawn->value.text);
}

static ks_err draw_signed(struct ks_item_write *write, int64_t number, struct drawn *drawn)
{
    const size_t begin = write->texts.size;

    KS_TRY(ks_bytes_format(&write->texts, "%" PRId64, number));
    return drawn_since(write, begin, KS_VALUE_NUMBER, drawn);
}

static ks_err draw_number(struct ks_item_write *write, uint64_t number, struct drawn *drawn)
{
    return number > INT64_MAX ? KS_FAIL(INVALID) : draw_signed(write, (int64_t)number, drawn);
}

/* The epoch or rev after `number`. */
static ks_err draw_next(struct ks_item_write *write, uint64_t number, struct drawn *drawn)
{
    return number >= INT64_MAX ? KS_FAIL(INVALID) : draw_number(write, number + 1, drawn);
}

static ks_err draw_boot(struct ks_item_write *write, uint64_t boot, struct drawn *drawn)
{
    const size_t begin = write->texts.size;

    KS_TRY(ks_native_put_boot(&write->texts, boot));
    return drawn_since(write, begin, KS_VALUE_TEXT, drawn);
}

static ks_err draw_somebody(struct ks_item_write *write, const struct ks_incarnation_text *who,
                            struct drawn *drawn)
{
    const size_t begin = write->texts.size;

    KS_TRY(ks_native_put_incarnation(&write->texts, who));
    return drawn_since(write, begin, KS_VALUE_TEXT, drawn);
}

static ks_err draw_anybody(struct ks_item_write *write, const struct ks_incarnation_text *who,
                           struct drawn *drawn)
{
    drawn->absent = who->id[0] == '\0';
    return drawn->absent ? KS_OK : draw_somebody(write, who, drawn);
}

static ks_err draw_tokens(struct ks_item_write *write, const struct ks_store_token *tokens,
                          uint32_t count, struct drawn *drawn)
{
    const size_t begin = write->texts.size;

    if (count > KS_TOKENS_MAX)
        return KS_FAIL(INVALID);
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0)
            KS_TRY(ks_bytes_append_byte(&write->texts, '\n'));
        KS_TRY(ks_native_put_token(&write->texts, &tokens[i]));
    }
    drawn->unsaid = count == 0;
    return drawn_since(write, begin, KS_VALUE_SET, drawn);
}

/* Up to two ids, each of which may be absent. */
static ks_err draw_ids(struct ks_item_write *write, bool (*is_id)(ks_view text), const char *one,
                       const char *two, struct drawn *drawn)
{
    const size_t begin = write->texts.size;
    const ks_view ids[] = {text_of(one), text_of(two)};

    for (size_t i = 0; i < 2; i++) {
        if (ids[i].size == 0 || (i == 1 && ks_view_equal(ids[0], ids[1])))
            continue;
        if (!is_id(ids[i]))
            return KS_FAIL(INVALID);
        if (write->texts.size != begin)
            KS_TRY(ks_bytes_append_byte(&write->texts, '\n'));
        KS_TRY(ks_bytes_append(&write->texts, ids[i]));
    }
    drawn->absent = write->texts.size == begin;
    return drawn_since(write, begin, KS_VALUE_SET, drawn);
}

static ks_err draw_hash_key(struct ks_item_write *write, const char *digits, struct drawn *drawn)
{
    if (digits[0] != '\0' && !ks_native_is_decimal(ks_view_text(digits), KS_HASH_KEY_MAX))
        return KS_FAIL(INVALID);
    return draw_text(write, ks_view_text(digits), drawn);
}

static ks_err draw_version(struct ks_item_write *write, ks_view version, struct drawn *drawn)
{
    if (version.size >= sizeof(((struct ks_store_worker *)NULL)->version))
        return KS_FAIL(INVALID);
    return draw_text(write, version, drawn);
}

/* The place that this request writes; NULL: it writes none. */
static const struct ks_position *position_of(const struct ks_store_request *request)
{
    static const struct ks_position end = {.kind = KS_POSITION_SHARD_END, .sub_sequence = -1};

    if (request->operation == KS_STORE_CREATE)
        return &request->lease->checkpoint;
    if (request->operation == KS_STORE_CREATE_APP)
        return &request->app->start;
    if (request->operation == KS_STORE_END)
        return &end;
    if (request->operation == KS_STORE_FINAL && !request->has_checkpoint)
        return NULL;
    return &request->checkpoint;
}

/* The place and the two numbers that belong to it: each is written or removed with it. */
static ks_err draw_place(struct ks_item_write *write, const struct ks_store_request *request,
                         enum source source, struct drawn *drawn)
{
    const struct ks_position *const position = position_of(request);
    const size_t begin = write->texts.size;

    if (position == NULL) {
        drawn->unsaid = true;
        return KS_OK;
    }
    if (source == POSITION) {
        KS_TRY(ks_native_put_position(&write->texts, position));
        return drawn_since(write, begin, KS_VALUE_TEXT, drawn);
    }
    if (source == POSITION_SUB) {
        drawn->absent = position->kind != KS_POSITION_AFTER_SEQUENCE || position->sub_sequence < 0;
        return draw_signed(write, position->sub_sequence, drawn);
    }
    drawn->absent = position->kind != KS_POSITION_AT_TIMESTAMP;
    return draw_signed(write, position->timestamp_ms, drawn);
}

static ks_err draw(struct ks_item_write *write, const struct ks_store_request *request,
                   enum source source, struct drawn *drawn)
{
    switch (source) {
    case NOTHING: return KS_OK;
    case ZERO: return draw_constant(KS_VALUE_NUMBER, "0", drawn);
    case ONE: return draw_constant(KS_VALUE_NUMBER, "1", drawn);
    case TRUTH: return draw_constant(KS_VALUE_BOOL, "true", drawn);
    case LIVE: return draw_constant(KS_VALUE_TEXT, ks_native_lives[KS_LIVE], drawn);
    case FENCED: return draw_constant(KS_VALUE_TEXT, ks_native_lives[KS_FENCED], drawn);
    case GONE: return draw_constant(KS_VALUE_TEXT, ks_native_lives[KS_GONE], drawn);
    case FENCED_OR_GONE: return draw_constant(KS_VALUE_SET, "fenced\ngone", drawn);
    case OWN_BOOT: return draw_boot(write, request->worker.boot, drawn);
    case EXPECT_BOOT: return draw_boot(write, request->expect_boot, drawn);
    case EXPECT_BEAT: return draw_number(write, request->expect_beat, drawn);
    case MODE:
        if ((unsigned)request->mode >= KS_MODES)
            return KS_FAIL(INVALID);
        return draw_constant(KS_VALUE_TEXT, ks_native_modes[request->mode], drawn);
    case HELD: return draw_number(write, request->held, drawn);
    case CHANGES: return draw_number(write, request->changes, drawn);
    case CAPACITY: return draw_number(write, request->capacity, drawn);
    case LOAD: return draw_number(write, request->load, drawn);
    case VERSION: return draw_version(write, text_of(request->version), drawn);
    case GIVES: return draw_tokens(write, request->gives, request->give_count, drawn);
    case TAKES: return draw_tokens(write, request->takes, request->take_count, drawn);
    case WORKER: return draw_somebody(write, &request->worker, drawn);
    case OWNER: return draw_somebody(write, &request->owner, drawn);
    case OWNER_OR_NONE: return draw_anybody(write, &request->owner, drawn);
    case NEXT_OWNER_OR_NONE: return draw_anybody(write, &request->next_owner, drawn);
    case DEPUTIES:
        return draw_ids(write, ks_native_is_worker_id, request->deputies[0], request->deputies[1],
                        drawn);
    case EPOCH: return draw_number(write, request->epoch, drawn);
    case NEXT_EPOCH: return draw_next(write, request->epoch, drawn);
    case REV: return draw_number(write, request->rev, drawn);
    case NEXT_REV: return draw_next(write, request->rev, drawn);
    case POSITION:
    case POSITION_SUB:
    case POSITION_MS: return draw_place(write, request, source, drawn);
    case PARENTS:
        return draw_ids(write, ks_native_is_shard, request->lease->parents[0],
                        request->lease->parents[1], drawn);
    case CHILDREN:
        return draw_ids(write, ks_native_is_shard, request->children[0], request->children[1],
                        drawn);
    case HASH_START: return draw_hash_key(write, request->lease->hash_start, drawn);
    case HASH_END: return draw_hash_key(write, request->lease->hash_end, drawn);
    case FINISHED:
        drawn->absent = !request->lease->finished;
        return draw_constant(KS_VALUE_BOOL, "true", drawn);
    case MENDED_EPOCH:
        return request->exists ? draw_next(write, request->epoch, drawn)
                               : draw_number(write, request->lease->epoch, drawn);
    case MENDED_REV:
        return request->exists ? draw_next(write, request->rev, drawn)
                               : draw_number(write, request->lease->rev, drawn);
    case STREAM_ARN: return draw_text(write, ks_view_text(request->app->stream_arn), drawn);
    case STREAM_CREATED:
        drawn->absent = request->app->stream_created_ms == 0;
        return draw_signed(write, request->app->stream_created_ms, drawn);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static const char *name_of(enum ks_native_attribute attribute)
{
    return attribute == KS_NATIVE_ROW ? "p" : ks_native_schema.attributes[attribute].name;
}

static ks_err add_condition(struct ks_item_write *write, const struct ks_store_request *request,
                            const struct condition *condition)
{
    struct drawn drawn = {0};
    enum ks_condition_kind kind = condition->kind;

    KS_TRY(draw(write, request, condition->source, &drawn));
    if (kind == KS_IF_EQUALS && drawn.absent)
        kind = KS_IF_ABSENT;
    /* An epoch that was never written counts as 0, and only as 0. */
    if (kind == KS_IF_EQUALS_OR_ABSENT && !ks_view_equal(drawn.value.text, KS_VIEW("0")))
        kind = KS_IF_EQUALS;
    ks_item_write_if(write, kind, name_of(condition->attribute), drawn.value);
    return KS_OK;
}

static ks_err add_update(struct ks_item_write *write, const struct ks_store_request *request,
                         const struct update *update)
{
    struct drawn drawn = {0};

    KS_TRY(draw(write, request, update->source, &drawn));
    if (drawn.unsaid)
        return KS_OK;
    ks_item_write_do(write, drawn.absent ? KS_DO_REMOVE : update->kind, name_of(update->attribute),
                     drawn.value);
    return KS_OK;
}

/* The lease row that a request names; NULL if it names none. */
static const char *shard_of(const struct ks_store_request *request)
{
    return request->operation == KS_STORE_CREATE && request->lease != NULL ? request->lease->shard
                                                                           : request->shard;
}

/* The key of a row; NULL if it can be none. */
static const char *key_of(const struct ks_store_request *request, enum row row)
{
    const char *key = NULL;

    switch (row) {
    case LEADER_ROW: return KS_NATIVE_LEADER;
    case APP_ROW: return KS_NATIVE_APP;
    case WORKER_ROW:
        key = request->worker.id;
        return ks_native_is_worker_id(ks_view_text(key)) ? key : NULL;
    case LEASE_ROW: key = shard_of(request); return ks_native_is_shard(text_of(key)) ? key : NULL;
    case NO_ROW: break;
    }
    return NULL;
}

static ks_err add_row_key(const struct ks_store_request *request, enum row row,
                          struct ks_item_keys *keys)
{
    const char *const key = key_of(request, row);

    return key == NULL ? KS_FAIL(INVALID) : ks_item_keys_add(keys, ks_view_text(key));
}

/* The row of the leader's office, its holder's if there is one, and that of the worker itself. */
static ks_err read_news(const struct ks_store_request *request, struct ks_item_keys *keys)
{
    const ks_view holder = ks_view_text(request->owner.id);

    KS_TRY(add_row_key(request, LEADER_ROW, keys));
    KS_TRY(add_row_key(request, WORKER_ROW, keys));
    if (holder.size == 0)
        return KS_OK;
    return ks_native_is_worker_id(holder) ? ks_item_keys_add(keys, holder) : KS_FAIL(INVALID);
}

ks_err ks_native_read(const struct ks_store_request *request, const char **ret_partition,
                      struct ks_item_keys *ret_keys)
{
    const enum ks_store_operation operation = request->operation;
    const bool leases = operation == KS_STORE_READ_LEASES || operation == KS_STORE_READ_LEASE;

    assert(!ks_native_writes(operation));

    *ret_partition = leases ? KS_NATIVE_LEASES : KS_NATIVE_WORKERS;
    *ret_keys = (struct ks_item_keys){.count = 0};
    if (operation == KS_STORE_READ_NEWS)
        return read_news(request, ret_keys);
    if (operation == KS_STORE_READ_LEASE)
        return add_row_key(request, LEASE_ROW, ret_keys);
    if (operation == KS_STORE_READ_WORKER)
        return add_row_key(request, WORKER_ROW, ret_keys);
    return KS_OK;
}

/* As far as a write may carry them. */
static size_t tokens_of(const struct ks_store_request *request)
{
    const bool carries =
        request->operation == KS_STORE_HEARTBEAT || request->operation == KS_STORE_HINTS;
    const size_t count = (size_t)request->give_count + request->take_count;

    if (!carries)
        return 0;
    return count < (size_t)2 * KS_TOKENS_MAX ? count : (size_t)2 * KS_TOKENS_MAX;
}

/* What a mended row shall say, as if it were asked for. */
static struct ks_store_request mended_of(const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    return (struct ks_store_request){.operation = KS_STORE_MEND,
                                     .owner = lease->owner,
                                     .next_owner = lease->next_owner,
                                     .epoch = request->epoch,
                                     .rev = request->rev,
                                     .exists = request->exists,
                                     .checkpoint = lease->checkpoint,
                                     .children = {lease->children[0], lease->children[1]},
                                     .lease = lease};
}

static ks_err fill(struct ks_item_write *write, const struct ks_store_request *request,
                   const struct plan *plan, enum ks_native_attribute *ret_at)
{
    const struct ks_store_request wanted =
        request->operation == KS_STORE_MEND ? mended_of(request) : *request;

    for (uint32_t i = 0; i < KS_ITEM_CONDITIONS_MAX && plan->conditions[i].kind != 0; i++) {
        *ret_at = plan->conditions[i].attribute;
        KS_TRY(add_condition(write, request, &plan->conditions[i]));
    }
    write->delete_row = plan->updates == NULL;
    for (const struct update *update = plan->updates; update != NULL && update->kind != 0;
         update++) {
        *ret_at = update->attribute;
        KS_TRY(add_update(write, &wanted, update));
    }
    return KS_OK;
}

ks_err ks_native_write(const struct ks_store_request *request, struct ks_item_write *ret_write,
                       struct ks_detail *ret_detail)
{
    const struct plan *const plan = plan_of(request);
    const char *const name = ks_store_operation_name(request->operation);
    const char *const key = key_of(request, plan->row);
    enum ks_native_attribute at = KS_NATIVE_ROW;
    ks_err err;

    assert(plan->row != NO_ROW);
    assert((request->operation != KS_STORE_CREATE && request->operation != KS_STORE_MEND) ||
           request->lease != NULL);
    assert(request->operation != KS_STORE_CREATE_APP || request->app != NULL);

    *ret_write = (struct ks_item_write){.p = NULL};
    if (key == NULL) {
        ks_detail_set(ret_detail, "%s: not a %s id", name,
                      plan->row == WORKER_ROW ? "worker" : "shard");
        return KS_FAIL(INVALID);
    }
    if (request->operation == KS_STORE_CREATE_APP &&
        request->app->start.kind == KS_POSITION_LATEST) {
        ks_detail_set(ret_detail, "%s: LATEST must be turned into AT_TIMESTAMP first", name);
        return KS_FAIL(INVALID);
    }
    if (request->operation == KS_STORE_MEND && request->lease->unstarted) {
        ks_detail_set(ret_detail, "%s of %s: no row is without a position", name, key);
        return KS_FAIL(UNSUPPORTED);
    }

    KS_TRY(ks_item_write_init(ret_write,
                              plan->row == LEASE_ROW ? KS_NATIVE_LEASES : KS_NATIVE_WORKERS, key,
                              FIXED_BYTES + tokens_of(request) * TOKEN_BYTES));
    err = fill(ret_write, request, plan, &at);
    if (!ks_ok(err))
        ks_detail_set(ret_detail, "%s of %s: %s: %s", name, key, name_of(at), ks_err_text(err));
    return err;
}
