/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_DEFAULT "http://127.0.0.1:8990"
#define UNIX_SCHEME "unix:"
#define HTTP_SCHEME "http://"
#define ID_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

enum { CLIENT_ID_MAX = 64, CONCURRENCY_MAX = 1024, LANES_MAX = 64, TOKEN_BYTES_MAX = 8192 };

/* What an option that is 0 or NULL means. */
static const ks_consumer_options DEFAULTS = {.max_in_flight = 1000,
                                             .max_in_flight_bytes = 16 << 20,
                                             .ack_deadline_ms = 60000,
                                             .max_processing_ms = 3600000,
                                             .ack_interval_ms = 100,
                                             .concurrency = 1};

static void set_numbers(ks_consumer_options *given)
{
    if (given->max_in_flight == 0)
        given->max_in_flight = DEFAULTS.max_in_flight;
    if (given->max_in_flight_bytes == 0)
        given->max_in_flight_bytes = DEFAULTS.max_in_flight_bytes;
    if (given->ack_deadline_ms == 0)
        given->ack_deadline_ms = DEFAULTS.ack_deadline_ms;
    if (given->max_processing_ms == 0)
        given->max_processing_ms = DEFAULTS.max_processing_ms;
    if (given->ack_interval_ms == 0)
        given->ack_interval_ms = DEFAULTS.ack_interval_ms;
    if (given->concurrency == 0)
        given->concurrency = DEFAULTS.concurrency;
}

/* The option, the variable or the default, whichever is there first. */
static const char *setting(const char *option, const char *variable, const char *by_default)
{
    const char *value = getenv(variable);

    if (option != NULL)
        return option;
    return value != NULL && value[0] != '\0' ? value : by_default;
}

static char *text_of(struct ks_buffer *buffer)
{
    const char *text = ks_buffer_text(buffer);
    char *copy = text == NULL ? NULL : strdup(text);

    ks_buffer_free(buffer);
    return copy;
}

static char *join_shards(const char *const *shards)
{
    struct ks_buffer joined = {0};

    for (size_t i = 0; shards[i] != NULL; i++) {
        ks_buffer_print(&joined, "%s", i == 0 ? "" : ",");
        ks_buffer_add_escaped(&joined, shards[i]);
    }
    return text_of(&joined);
}

/* Escapes a text, or leaves NULL. Returns false if there is no memory. */
static bool escape(const char *text, char **ret_escaped)
{
    struct ks_buffer escaped = {0};

    if (text == NULL)
        return true;
    ks_buffer_add_escaped(&escaped, text);
    *ret_escaped = text_of(&escaped);
    return *ret_escaped != NULL;
}

static bool copy_texts(struct ks_options *options, const ks_consumer_options *given,
                       const char *client_id)
{
    const char *url = setting(given->url, "KINESIS_SIDECAR_URL", URL_DEFAULT);
    const char *token_file = setting(given->token_file, "KINESIS_SIDECAR_TOKEN_FILE", "");

    options->client_id = strdup(client_id);
    options->given.url = strdup(url);
    options->given.token_file = strdup(token_file);
    if (given->shards != NULL && given->shards[0] != NULL)
        options->shards = join_shards(given->shards);
    return escape(given->subscription, &options->subscription) &&
           escape(given->share, &options->share) && escape(given->salt, &options->salt) &&
           escape(given->filter, &options->filter) && options->client_id != NULL &&
           options->given.url != NULL && options->given.token_file != NULL &&
           (options->shards == NULL) == (given->shards == NULL || given->shards[0] == NULL);
}

/* Returns false if the address is invalid. */
static bool set_address(struct ks_options *options)
{
    const char *url = options->given.url;
    struct ks_buffer base = {0};

    if (strncmp(url, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0) {
        options->socket = url + strlen(UNIX_SCHEME);
        ks_buffer_print(&base, "http://localhost");
    } else {
        size_t size = strlen(url);
        if (size > 0 && url[size - 1] == '/')
            size--;
        ks_buffer_print(&base, "%.*s", (int)size, url);
    }
    options->base = text_of(&base);
    if (options->base == NULL)
        return true;
    if (options->socket != NULL)
        return options->socket[0] == '/';
    return strncmp(options->base, HTTP_SCHEME, strlen(HTTP_SCHEME)) == 0 &&
           options->base[strlen(HTTP_SCHEME)] != '\0' &&
           strpbrk(options->base + strlen(HTTP_SCHEME), "/?#@ \t\r\n") == NULL;
}

static void check(struct ks_options *options)
{
    const ks_consumer_options *given = &options->given;
    const char *id = options->client_id;
    bool is_address = set_address(options);
    size_t size = strlen(id);

#define INVALID(...) (void)snprintf(options->invalid, sizeof(options->invalid), __VA_ARGS__)
    if (size == 0 || size > CLIENT_ID_MAX || strspn(id, ID_LETTERS) != size)
        INVALID("client_id must be 1 to 64 of A-Z a-z 0-9 . _ -, got \"%.100s\"", id);
    else if (!is_address)
        INVALID("url must be http://HOST:PORT or unix:/PATH, got \"%.150s\"", given->url);
    else if (given->ack_deadline_ms < 0 || given->max_processing_ms < 0 ||
             given->ack_interval_ms < 0)
        INVALID("ack_deadline_ms, max_processing_ms and ack_interval_ms must not be negative");
    else if (given->ordering > KS_CLIENT_ORDERING_NONE)
        INVALID("ordering must be a value of ks_client_ordering, got %d", (int)given->ordering);
    else if (given->lanes > LANES_MAX)
        INVALID("lanes must be 1 to 64, got %" PRIu32, given->lanes);
    else if (given->concurrency > CONCURRENCY_MAX)
        INVALID("concurrency must be 1 to 1024, got %" PRIu32, given->concurrency);
#undef INVALID
}

bool ks_options_init(struct ks_options *options, const char *client_id,
                     const ks_consumer_options *given)
{
    if (given != NULL)
        options->given = *given;
    options->given.shards = NULL;
    options->given.subscription = NULL;
    options->given.share = NULL;
    options->given.salt = NULL;
    options->given.filter = NULL;
    set_numbers(&options->given);
    if (!copy_texts(options, given != NULL ? given : &DEFAULTS, client_id))
        return false;
    check(options);
    return options->base != NULL;
}

static void free_text(const char *text)
{
    free((char *)(uintptr_t)text); /* Without const: the options have copies. */
}

void ks_options_free(struct ks_options *options)
{
    free_text(options->given.url);
    free_text(options->given.token_file);
    free(options->client_id);
    free(options->shards);
    free(options->subscription);
    free(options->share);
    free(options->salt);
    free(options->filter);
    free(options->base);
}

void ks_options_order(struct ks_options *options, uint32_t concurrency)
{
    ks_consumer_options *given = &options->given;
    bool wants_lanes = concurrency > 1 || options->share != NULL;

    if (given->ordering != KS_CLIENT_ORDERING_DEFAULT)
        return;
    given->ordering = wants_lanes ? KS_CLIENT_ORDERING_KEY : KS_CLIENT_ORDERING_SHARD;
    if (wants_lanes && given->lanes == 0)
        given->lanes = LANES_MAX;
}

static const char *ordering_word(ks_client_ordering ordering)
{
    switch (ordering) {
    case KS_CLIENT_ORDERING_KEY: return "key";
    case KS_CLIENT_ORDERING_NONE: return "none";
    case KS_CLIENT_ORDERING_DEFAULT:
    case KS_CLIENT_ORDERING_SHARD: break;
    }
    return "shard";
}

static void add_text(struct ks_buffer *url, const char *name, const char *escaped)
{
    if (escaped != NULL)
        ks_buffer_print(url, "&%s=%s", name, escaped);
}

void ks_options_add_stream_url(const struct ks_options *options, struct ks_buffer *url)
{
    const ks_consumer_options *given = &options->given;

    ks_buffer_print(url,
                    "%s/v1/records/stream?client_id=%s&max_in_flight=%" PRIu32
                    "&max_in_flight_bytes=%" PRIu64 "&ack_deadline_ms=%" PRId64 "&ordering=%s",
                    options->base, options->client_id, given->max_in_flight,
                    given->max_in_flight_bytes, given->ack_deadline_ms,
                    ordering_word(given->ordering));
    if (given->ordering == KS_CLIENT_ORDERING_KEY && given->lanes > 0)
        ks_buffer_print(url, "&lanes=%" PRIu32, given->lanes);
    add_text(url, "shards", options->shards);
    add_text(url, "share", options->share);
    add_text(url, "salt", options->salt);
    add_text(url, "filter", options->filter);
    add_text(url, "subscription", options->subscription);
}

static void add_url(const struct ks_options *options, struct ks_buffer *url, const char *path,
                    const char *name)
{
    ks_buffer_print(url, "%s%s%s", options->base, path, name);
    if (options->subscription != NULL)
        ks_buffer_print(url, "?subscription=%s", options->subscription);
}

void ks_options_add_settle_url(const struct ks_options *options, struct ks_buffer *url)
{
    add_url(options, url, "/v1/records/settle", "");
}

void ks_options_add_session_url(const struct ks_options *options, struct ks_buffer *url)
{
    add_url(options, url, "/v1/sessions/", options->client_id);
}

bool ks_options_add_authorization(const struct ks_options *options, struct ks_buffer *header)
{
    char token[TOKEN_BYTES_MAX];
    size_t size;
    FILE *file;

    if (options->given.token_file[0] == '\0')
        return true;
    file = fopen(options->given.token_file, "re");
    if (file == NULL)
        return false;
    size = fread(token, 1, sizeof(token) - 1, file);
    (void)fclose(file);
    token[size] = '\0';
    token[strcspn(token, "\r\n")] = '\0';
    ks_buffer_print(header, "Authorization: Bearer %s", token);
    return true;
}
