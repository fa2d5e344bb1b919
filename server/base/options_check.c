/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options_check.h"

#include "base/codec.h"

#include <assert.h>

enum {
    MEMORY_BUDGET_BYTES_MIN = 1 << 20,
    TABLE_NAME_CHARACTERS_MIN = 3,
    STREAM_CHARACTERS_MAX = 128,
    CONSUMER_CHARACTERS_MAX = 128
};

/* The smallest command line that needs nothing but a disk. */
static const char embedded[] =
    "kinesis-sidecar --source local:/path/stream.db --stream demo --application demo";

bool ks_option_is_name(ks_view text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return text.size > 0;
}

void ks_option_stream(const char *stream, ks_view *ret_account, ks_view *ret_name)
{
    ks_view rest = ks_view_text(stream);

    *ret_account = KS_VIEW_NONE;
    if (ks_view_starts(rest, KS_VIEW("arn:"))) {
        for (int part = 0; part < 5; part++)
            *ret_account = ks_view_cut(&rest, ':');
        (void)ks_view_cut(&rest, '/');
    }
    *ret_name = rest;
}

bool ks_option_same_stream(const char *a, const char *b)
{
    ks_view account_a, account_b;
    ks_view name_a, name_b;

    ks_option_stream(a, &account_a, &name_a);
    ks_option_stream(b, &account_b, &name_b);
    return ks_view_equal(name_a, name_b) &&
           (account_a.size == 0 || account_b.size == 0 || ks_view_equal(account_a, account_b));
}

void ks_option_quote(ks_view text, char ret_quoted[KS_QUOTE_SIZE])
{
    const char *end = "\"";
    size_t size = 0;

    ret_quoted[size++] = '"';
    for (size_t i = 0; i < text.size; i++) {
        if (size == KS_QUOTE_SIZE - 4) {
            end = "..\"";
            break;
        }
        ret_quoted[size++] = text.data[i] < 0x20 || text.data[i] > 0x7E ? '?' : (char)text.data[i];
    }
    memcpy(ret_quoted + size, end, strlen(end) + 1);
}

const char *ks_option_path(const char *text)
{
    static const char *const prefixes[] = {"local:", "sqlite:"};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return text + strlen(prefixes[i]);
    }
    return NULL;
}

bool ks_option_is_bucket(const char *text)
{
    return strncmp(text, "s3://", 5) == 0;
}

void ks_option_directory(const char *path, char ret_directory[KS_OPTION_TEXT_SIZE])
{
    const char *slash = strrchr(path, '/');
    ks_view directory = KS_VIEW(".");
    ks_err copied;

    if (slash != NULL)
        directory = ks_view_of(path, slash == path ? 1 : (size_t)(slash - path));
    copied = ks_view_copy_text(directory, ret_directory, KS_OPTION_TEXT_SIZE);
    assert(ks_ok(copied));
}

ks_err ks_option_initial_position(const char *text, enum ks_initial *ret_initial,
                                  int64_t *ret_unix_ms)
{
    const ks_view prefix = KS_VIEW("at_timestamp:");
    ks_view view = ks_view_text(text);

    if (ks_view_equal(view, KS_VIEW("latest"))) {
        *ret_initial = KS_INITIAL_LATEST;
        return KS_OK;
    }
    if (ks_view_equal(view, KS_VIEW("trim_horizon"))) {
        *ret_initial = KS_INITIAL_TRIM_HORIZON;
        return KS_OK;
    }
    if (!ks_view_starts(view, prefix))
        return KS_FAIL(INVALID);
    KS_TRY(ks_timestamp_parse(ks_view_of(view.data + prefix.size, view.size - prefix.size),
                              ret_unix_ms));
    *ret_initial = KS_INITIAL_AT_TIMESTAMP;
    return KS_OK;
}

ks_err ks_option_waits(const char *text, uint32_t *ret_waits, uint32_t *ret_count)
{
    enum { WAIT_MS_MAX = 3600000 };
    ks_view rest = ks_view_text(text);
    uint32_t count = 0;

    while (rest.size > 0) {
        ks_view item = ks_view_trim(ks_view_cut(&rest, ','));
        uint64_t wait = 0;

        if (count == KS_OPTION_WAITS_MAX || item.size == 0 || item.size > 7)
            return KS_FAIL(INVALID);
        for (size_t i = 0; i < item.size; i++) {
            if (item.data[i] < '0' || item.data[i] > '9')
                return KS_FAIL(INVALID);
            wait = wait * 10 + (uint64_t)(item.data[i] - '0');
        }
        if (wait > WAIT_MS_MAX)
            return KS_FAIL(INVALID);
        ret_waits[count++] = (uint32_t)wait;
    }
    *ret_count = count;
    return KS_OK;
}

/* "WORD", or "PREFIX:PATH" with a path. */
static ks_err check_place(const char *flag, const char *value, const char *word, const char *prefix,
                          struct ks_detail *detail)
{
    char quoted[KS_QUOTE_SIZE];
    size_t size = strlen(prefix);

    if (strcmp(value, word) == 0)
        return KS_OK;
    if (strncmp(value, prefix, size) == 0 && value[size] != '\0')
        return KS_OK;
    if (strcmp(value, prefix) == 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: %s wants a path, as in %s/data/file.db", flag, prefix, prefix);
    ks_option_quote(ks_view_text(value), quoted);
    return ks_err_because(KS_FAIL(INVALID), detail, "%s: %s is neither %s nor %sPATH", flag, quoted,
                          word, prefix);
}

static ks_err check_places(const struct ks_options *options, struct ks_detail *detail)
{
    const char *stream, *table;

    KS_TRY(check_place("--source", options->source, "kinesis", "local:", detail));
    KS_TRY(check_place("--leases", options->leases, "dynamodb", "sqlite:", detail));
    stream = ks_option_path(options->source);
    table = ks_option_path(options->leases);
    if (stream != NULL && table != NULL && strcmp(stream, table) == 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--source and --leases name one file; two are wanted");
    if (stream == NULL && options->sources[KS_OPTION_local_shards] != KS_OPTION_DEFAULT)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--local-shards goes only with --source local:PATH");
    if (stream == NULL && options->speed != 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--speed goes only with --source local:PATH");
    return KS_OK;
}

static ks_err check_dead_letters(const struct ks_options *options, struct ks_detail *detail)
{
    static const char *const prefixes[] = {"s3://", "sqlite:", "sqs:", "sns:", "kinesis:"};
    const bool table = strcmp(options->dead_letters, "table") == 0;

    if (table && strcmp(options->leases, "dynamodb") != 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--dead-letters: table wants --leases dynamodb");
    if (table || options->dead_letters[0] == '\0')
        return KS_OK;
    /* What follows the prefix of a bucket or sink is read where it is opened. */
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const size_t size = strlen(prefixes[i]);

        if (strncmp(options->dead_letters, prefixes[i], size) == 0 &&
            options->dead_letters[size] != '\0')
            return KS_OK;
    }
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "--dead-letters: wants table, s3://BUCKET/PREFIX, sqlite:PATH, "
                          "sqs:QUEUE_URL, sns:TOPIC_ARN or kinesis:STREAM");
}

static ks_err check_poison(const struct ks_options *options, struct ks_detail *detail)
{
    bool ends = options->max_attempts > 0 || options->max_record_age_ms > 0;
    uint32_t waits[KS_OPTION_WAITS_MAX];
    char quoted[KS_QUOTE_SIZE];
    uint32_t count;

    KS_TRY(check_dead_letters(options, detail));
    ks_option_quote(ks_view_text(options->retry_backoff_ms), quoted);
    if (!ks_ok(ks_option_waits(options->retry_backoff_ms, waits, &count)))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--retry-backoff-ms: %s is no list of up to %d numbers up to 3600000",
                              quoted, KS_OPTION_WAITS_MAX);
    if (ends && strcmp(options->on_exhausted, "dead_letter") == 0 &&
        options->dead_letters[0] == '\0')
        return ks_err_because(
            KS_FAIL(INVALID), detail,
            "--on-exhausted dead_letter wants --dead-letters s3://BUCKET/PREFIX or "
            "sqlite:PATH, or --state-dir");
    return KS_OK;
}

static bool is_stream_name(ks_view text)
{
    return text.size <= STREAM_CHARACTERS_MAX && ks_option_is_name(text);
}

/* arn:PARTITION:kinesis:REGION:ACCOUNT:stream/NAME; a consumer's goes on with /consumer/NAME:INSTANT. */
static bool is_stream_arn(ks_view text)
{
    ks_view parts[5];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        parts[i] = ks_view_cut(&text, ':');
        if (parts[i].size == 0)
            return false;
    }
    return ks_view_equal(parts[2], KS_VIEW("kinesis")) &&
           ks_view_starts(text, KS_VIEW("stream/")) &&
           is_stream_name(ks_view_of(text.data + 7, text.size - 7));
}

/* A name of 1 to 128 characters, or an ARN of Kinesis (CreateStream API reference). */
static ks_err check_stream(const struct ks_options *options, struct ks_detail *detail)
{
    ks_view stream = ks_view_text(options->stream);
    bool arn = ks_view_starts(stream, KS_VIEW("arn:"));
    char quoted[KS_QUOTE_SIZE];

    if (arn && ks_option_path(options->source) != NULL)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--stream: an ARN goes only with --source kinesis");
    if (stream.size == 0 || (arn ? is_stream_arn(stream) : is_stream_name(stream)))
        return KS_OK;
    ks_option_quote(stream, quoted);
    if (arn)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--stream: %s is no stream's ARN, like "
                              "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME; a consumer's is none",
                              quoted);
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "--stream: %s is neither an ARN nor a name of up to %d letters, digits, "
                          ". _ and -",
                          quoted, STREAM_CHARACTERS_MAX);
}

static ks_err check_names(const struct ks_options *options, struct ks_detail *detail)
{
    const struct {
        const char *flag, *value;
    } names[] = {
        {"--name", options->name},
        {"--application", options->application},
        {"--worker-id", options->worker_id},
    };
    size_t size = strlen(options->application);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ks_view value = ks_view_text(names[i].value);
        char quoted[KS_QUOTE_SIZE];
        if (value.size == 0 || ks_option_is_name(value))
            continue;
        ks_option_quote(value, quoted);
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: %s has other characters than letters, digits, . _ and -",
                              names[i].flag, quoted);
    }
    if (size > 0 && size < TABLE_NAME_CHARACTERS_MIN && strcmp(options->leases, "dynamodb") == 0)
        return ks_err_because(
            KS_FAIL(INVALID), detail,
            "--application: the name of a DynamoDB table has 3 to 255 characters");
    return KS_OK;
}

/* arn:PARTITION:iam::ACCOUNT:role/NAME */
static bool is_role_arn(ks_view text)
{
    ks_view parts[5];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i] = ks_view_cut(&text, ':');
    return ks_view_equal(parts[0], KS_VIEW("arn")) && ks_view_equal(parts[2], KS_VIEW("iam")) &&
           parts[4].size > 0 && text.size > 5 && ks_view_starts(text, KS_VIEW("role/"));
}

static ks_err check_roles(const struct ks_options *options, struct ks_detail *detail)
{
    const struct {
        const char *service, *place, *arn, *external_id, *flag;
    } roles[] = {
        {"kinesis", options->source, options->kinesis_role_arn, options->kinesis_role_external_id,
         "--source"},
        {"dynamodb", options->leases, options->dynamodb_role_arn,
         options->dynamodb_role_external_id, "--leases"},
    };
    char quoted[KS_QUOTE_SIZE];

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        ks_view arn = ks_view_text(roles[i].arn);
        if (arn.size == 0 && roles[i].external_id[0] != '\0')
            return ks_err_because(KS_FAIL(INVALID), detail,
                                  "--%s-role-external-id goes only with --%s-role-arn",
                                  roles[i].service, roles[i].service);
        if (arn.size == 0)
            continue;
        ks_option_quote(arn, quoted);
        if (!is_role_arn(arn))
            return ks_err_because(
                KS_FAIL(INVALID), detail,
                "--%s-role-arn: %s is no role, like arn:aws:iam::ACCOUNT:role/NAME",
                roles[i].service, quoted);
        if (strcmp(roles[i].place, roles[i].service) != 0)
            return ks_err_because(KS_FAIL(INVALID), detail, "--%s-role-arn goes only with %s %s",
                                  roles[i].service, roles[i].flag, roles[i].service);
    }
    return KS_OK;
}

/* What goes with which table. */
static ks_err check_dialect(const struct ks_options *options, struct ks_detail *detail)
{
    const bool is_native = strcmp(options->dialect, "native") == 0;
    const bool is_kinsumer = strcmp(options->dialect, "kinsumer") == 0;

    if (is_kinsumer && options->client_max_age_ms != 0 &&
        options->client_max_age_ms <= options->shard_check_ms)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--client-max-age-ms must be more than --shard-check-ms");
    if (is_kinsumer && options->max_leases != 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--max-leases is not of --dialect kinsumer: its clients have equal "
                              "parts, and what one leaves alone nobody reads");
    if (!is_native && ks_option_path(options->leases) != NULL)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--dialect %s is of tables in DynamoDB; leases in SQLite are native",
                              options->dialect);
    return KS_OK;
}

/* arn:PARTITION:kinesis:REGION:ACCOUNT:stream/NAME/consumer/NAME:INSTANT */
static bool is_consumer_arn(ks_view text)
{
    ks_view parts[5];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i] = ks_view_cut(&text, ':');
    ks_view stream = ks_view_cut(&text, '/');
    ks_view name = ks_view_cut(&text, '/');
    return ks_view_equal(parts[0], KS_VIEW("arn")) && ks_view_equal(parts[2], KS_VIEW("kinesis")) &&
           ks_view_equal(stream, KS_VIEW("stream")) && is_stream_name(name) &&
           ks_view_starts(text, KS_VIEW("consumer/")) && text.size > 9;
}

/* Another stream has shards of the same names: its records would come as those of ours. */
static bool is_consumer_of(ks_view consumer, ks_view stream)
{
    bool arn = ks_view_starts(stream, KS_VIEW("arn:"));

    for (int part = 0; part < 5 && !arn; part++)
        (void)ks_view_cut(&consumer, ':');
    if (!arn)
        (void)ks_view_cut(&consumer, '/');
    return ks_view_starts(consumer, stream) && consumer.data[stream.size] == '/';
}

static ks_err check_retrieval(const struct ks_options *options, struct ks_detail *detail)
{
    bool fanout = strcmp(options->retrieval, "fanout") == 0;
    ks_view consumer = ks_view_text(options->consumer);
    char quoted[KS_QUOTE_SIZE];

    if (fanout && strcmp(options->source, "kinesis") != 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--retrieval fanout goes only with --source kinesis");
    if (!fanout && consumer.size > 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--consumer goes only with --retrieval fanout");
    if (strcmp(options->aws_protocol, "auto") != 0 && strcmp(options->source, "kinesis") != 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--aws-protocol goes only with --source kinesis");
    if (fanout && consumer.size == 0 && strlen(options->application) > CONSUMER_CHARACTERS_MAX)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--application is longer than the %d characters of a consumer's "
                              "name; give one with --consumer",
                              CONSUMER_CHARACTERS_MAX);
    ks_option_quote(consumer, quoted);
    if (options->stream[0] != '\0' && is_consumer_arn(consumer) &&
        !is_consumer_of(consumer, ks_view_text(options->stream)))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--consumer: %s is a consumer of another stream than --stream",
                              quoted);
    if (consumer.size == 0 || is_consumer_arn(consumer) ||
        (consumer.size <= CONSUMER_CHARACTERS_MAX && ks_option_is_name(consumer)))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "--consumer: %s is no consumer: up to %d letters, digits, . _ and -, or "
                          "arn:..:stream/NAME/consumer/NAME:INSTANT",
                          quoted, CONSUMER_CHARACTERS_MAX);
}

static ks_err parse_addresses(const char *flag, const char *text,
                              struct ks_address ret_addresses[KS_ADDRESSES_MAX],
                              uint32_t *ret_count, struct ks_detail *detail)
{
    struct ks_detail why;

    if (ks_ok(ks_address_parse_list(ks_view_text(text), ret_addresses, ret_count, &why)))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail, "%s: %s", flag, why.text);
}

static ks_err check_addresses(const struct ks_options *options, struct ks_detail *detail)
{
    struct ks_address api[KS_ADDRESSES_MAX], ops[KS_ADDRESSES_MAX];
    uint32_t api_count, ops_count;

    KS_TRY(parse_addresses("--listen", options->listen, api, &api_count, detail));
    KS_TRY(parse_addresses("--ops-listen", options->ops_listen, ops, &ops_count, detail));
    for (uint32_t i = 0; i < api_count; i++) {
        for (uint32_t j = 0; j < ops_count; j++) {
            if (ks_address_equal(&api[i], &ops[j]))
                return ks_err_because(
                    KS_FAIL(INVALID), detail,
                    "--listen and --ops-listen share an address; each wants its own");
        }
    }
    return KS_OK;
}

static ks_err check_hosts(const struct ks_options *options, struct ks_detail *detail)
{
    ks_view rest = ks_view_text(options->allow_host);
    uint32_t count = 0;

    while (rest.size > 0) {
        ks_view host = ks_view_trim(ks_view_cut(&rest, ','));
        char quoted[KS_QUOTE_SIZE];
        if (++count > KS_ALLOW_HOSTS_MAX)
            return ks_err_because(KS_FAIL(INVALID), detail, "--allow-host: more than %d names",
                                  KS_ALLOW_HOSTS_MAX);
        if (ks_option_is_name(host))
            continue;
        ks_option_quote(host, quoted);
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--allow-host: %s is no host name; names have commas between them",
                              quoted);
    }
    return KS_OK;
}

ks_err ks_options_check(const struct ks_options *options, struct ks_detail *detail)
{
    enum ks_initial initial;
    char quoted[KS_QUOTE_SIZE];
    int64_t unix_ms;

    KS_TRY(check_places(options, detail));
    KS_TRY(check_poison(options, detail));
    KS_TRY(check_stream(options, detail));
    KS_TRY(check_names(options, detail));
    KS_TRY(check_roles(options, detail));
    KS_TRY(check_dialect(options, detail));
    KS_TRY(check_retrieval(options, detail));
    KS_TRY(check_addresses(options, detail));
    KS_TRY(check_hosts(options, detail));
    if (options->memory_budget_bytes > 0 && options->memory_budget_bytes < MEMORY_BUDGET_BYTES_MIN)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--memory-budget-bytes: wants 0 or at least %d",
                              MEMORY_BUDGET_BYTES_MIN);
    if (!ks_ok(ks_option_initial_position(options->initial_position, &initial, &unix_ms))) {
        ks_option_quote(ks_view_text(options->initial_position), quoted);
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--initial-position: %s is none of latest, trim_horizon, "
                              "at_timestamp:2026-11-21T00:40:00Z",
                              quoted);
    }
    return KS_OK;
}

ks_err ks_options_check_required(const struct ks_options *options, struct ks_detail *detail)
{
    bool stream = options->stream[0] != '\0';
    bool application = options->application[0] != '\0';

    if (stream && application)
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail, "missing %s%s%s; without AWS: %s",
                          stream ? "" : "--stream", stream || application ? "" : " and ",
                          application ? "" : "--application", embedded);
}
