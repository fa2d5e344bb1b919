/* SPDX-License-Identifier: Apache-2.0 */
/* sdk COUNT - reads COUNT records of the stream `demo` from Kinesis itself, and prints their
 * number after each 1,000.
 *
 * This is a plain HTTP loop, with libcurl, which signs the requests, and jansson: there is no
 * AWS SDK for C. It does less work than an SDK, which also makes request and result objects,
 * retries, and calls interceptors.
 */
#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STREAM "demo"

enum {
    SHARDS_MAX = 64,
    LIMIT = 10000,
    DATA_BYTES_MAX = 11 << 20, /* A record has 10 MiB at most. */
    READ_BYTES = 256 << 10,
    IDLE_NS = 200000000
};

/* The body of an answer. */
struct answer {
    char *text;
    size_t size;
    size_t capacity;
};

struct kinesis {
    CURL *easy;
    struct answer answer;
};

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "sdk: %s\n", what);
    exit(1);
}

static const char *setting(const char *name, const char *by_default)
{
    const char *value = getenv(name);

    return value == NULL ? by_default : value;
}

static size_t take(char *data, size_t one, size_t size, void *context)
{
    struct answer *answer = context;

    (void)one;
    if (answer->size + size > answer->capacity) {
        answer->capacity = 2 * (answer->size + size);
        answer->text = realloc(answer->text, answer->capacity);
        if (answer->text == NULL)
            fail("out of memory");
    }
    memcpy(answer->text + answer->size, data, size);
    answer->size += size;
    return size;
}

static void prepare(struct kinesis *kinesis)
{
    char option[128];
    CURL *easy = curl_easy_init();

    if (easy == NULL)
        fail("out of memory");
    kinesis->easy = easy;
    (void)curl_easy_setopt(easy, CURLOPT_URL, setting("AWS_ENDPOINT_URL_KINESIS", ""));
    (void)snprintf(option, sizeof(option), "aws:amz:%.60s:kinesis",
                   setting("AWS_REGION", "us-east-1"));
    (void)curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, option);
    (void)curl_easy_setopt(easy, CURLOPT_USERNAME, setting("AWS_ACCESS_KEY_ID", "none"));
    (void)curl_easy_setopt(easy, CURLOPT_PASSWORD, setting("AWS_SECRET_ACCESS_KEY", "none"));
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, &kinesis->answer);
}

/* Calls Kinesis, and releases the members of the request. Returns the answer; NULL: Kinesis
 * throttles the call. */
static json_t *call(struct kinesis *kinesis, const char *operation, json_t *members)
{
    struct answer *answer = &kinesis->answer;
    char *body = json_dumps(members, JSON_COMPACT);
    struct curl_slist *headers = NULL;
    char target[64];
    long status = 0;
    CURLcode result;
    json_t *content;

    (void)snprintf(target, sizeof(target), "X-Amz-Target: Kinesis_20131202.%s", operation);
    headers = curl_slist_append(headers, "Content-Type: application/x-amz-json-1.1");
    headers = curl_slist_append(headers, target);
    answer->size = 0;
    (void)curl_easy_setopt(kinesis->easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(kinesis->easy, CURLOPT_POSTFIELDS, body);
    result = curl_easy_perform(kinesis->easy);
    (void)curl_easy_getinfo(kinesis->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    free(body);
    json_decref(members);
    if (result != CURLE_OK)
        fail(curl_easy_strerror(result));
    content = json_loadb(answer->text, answer->size, 0, NULL);
    if (status == 200 && content != NULL)
        return content;
    if (content == NULL || strstr(json_string_value(json_object_get(content, "__type")),
                                  "ProvisionedThroughputExceededException") == NULL)
        fail(operation);
    json_decref(content);
    return NULL;
}

/* Decodes Base64. Returns the number of bytes. */
static size_t decode(const char *text, char *bytes)
{
    static signed char values[256];
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0, count = 0;
    size_t size = 0;

    for (int i = 0; values['/'] == 0 && i < 64; i++)
        values[(unsigned char)LETTERS[i]] = (signed char)i;
    for (const char *at = text; *at != '\0' && *at != '='; at++) {
        bits = bits << 6 | (unsigned)values[(unsigned char)*at];
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes[size++] = (char)(bits >> count);
        }
    }
    return size;
}

/* Finds the shards, and an iterator for each. Returns their number. */
static size_t open_shards(struct kinesis *kinesis, json_t *iterators[SHARDS_MAX])
{
    json_t *answer = call(kinesis, "ListShards", json_pack("{s:s}", "StreamName", STREAM));
    json_t *shards = json_object_get(answer, "Shards");
    size_t count = json_array_size(shards);

    for (size_t i = 0; i < count && i < SHARDS_MAX; i++) {
        json_t *id = json_object_get(json_array_get(shards, i), "ShardId");
        json_t *iterator = call(kinesis, "GetShardIterator",
                                json_pack("{s:s, s:O, s:s}", "StreamName", STREAM, "ShardId", id,
                                          "ShardIteratorType", "TRIM_HORIZON"));
        iterators[i] = json_incref(json_object_get(iterator, "ShardIterator"));
        json_decref(iterator);
    }
    json_decref(answer);
    return count;
}

/* Reads one shard once, and sets its iterator. Returns the number of records that were read from
 * all shards. */
static size_t read_shard(struct kinesis *kinesis, json_t **iterator, size_t read)
{
    static char data[DATA_BYTES_MAX];
    json_t *members = json_pack("{s:o, s:i}", "ShardIterator", *iterator, "Limit", LIMIT);
    json_t *answer, *record;
    size_t index;

    json_incref(*iterator);
    answer = call(kinesis, "GetRecords", members);
    json_array_foreach(json_object_get(answer, "Records"), index, record)
    {
        const char *text = json_string_value(json_object_get(record, "Data"));
        if (decode(text, data) > 0 && ++read % 1000 == 0)
            (void)printf("%zu\n", read);
    }
    if (answer != NULL) {
        json_decref(*iterator);
        *iterator = json_incref(json_object_get(answer, "NextShardIterator"));
    }
    json_decref(answer);
    return read;
}

int main(int argc, char **argv)
{
    json_t *iterators[SHARDS_MAX];
    size_t wanted = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    struct kinesis kinesis = {0};
    size_t shards, read = 0;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    prepare(&kinesis);
    shards = open_shards(&kinesis, iterators);
    while (read < wanted) {
        size_t before = read;
        for (size_t i = 0; i < shards; i++)
            read = read_shard(&kinesis, &iterators[i], read);
        if (read == before)
            (void)nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
    }
    return 0;
}
