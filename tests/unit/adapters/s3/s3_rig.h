/* SPDX-License-Identifier: Apache-2.0 */
/* s3_rig.h - a store of dead letters in a bucket that a script plays: s3://bucket/p, application "app", stream "demo".
 *
 * The first request of each is the look at the start.
 */
#ifndef TESTS_UNIT_ADAPTERS_S3_RIG_H
#define TESTS_UNIT_ADAPTERS_S3_RIG_H

#include "ports/dead_letters.h"

#include "http_script.h"
#include "ks_test.h"

/* Of the letters s.1.0 and s.2.0. */
#define S3_FOLDER "p/app/demo/"
#define S3_KEY_1                                                                                   \
    S3_FOLDER "s/00000000000000000000000000000000000000000000000000000001.0000000000.json"
#define S3_KEY_2                                                                                   \
    S3_FOLDER "s/00000000000000000000000000000000000000000000000000000002.0000000000.json"

#define S3_ERROR(code) "<Error><Code>" code "</Code><Message>m</Message></Error>"
#define S3_LIST(truncated, contents)                                                               \
    "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>" truncated "</IsTruncated>" contents   \
    "</ListBucketResult>"
#define S3_CONTENTS(key, size)                                                                     \
    "<Contents><Key>" key "</Key><Size>" size "</Size><ETag>&quot;e&quot;</ETag></Contents>"
#define S3_EMPTY S3_LIST("false", "")
#define S3_ETAG "ETag: \"e\"\r\n"

/* The object of s.NUMBER.0, of 2026-11-21T00:00:SECOND. */
#define S3_OBJECT(number, second) S3_OBJECT_WITH(number, second, "")
/* With a claim that lasts until 2999, or is over. */
#define S3_CLAIMED(number, second, by)                                                             \
    S3_OBJECT_WITH(number, second,                                                                 \
                   ",\"claim\":\"" by "\",\"claimed_until\":\"2999-01-01T00:00:00.000Z\"")
#define S3_CLAIM_OVER(number, second, by)                                                          \
    S3_OBJECT_WITH(number, second,                                                                 \
                   ",\"claim\":\"" by "\",\"claimed_until\":\"2001-01-01T00:00:00.000Z\"")
#define S3_OBJECT_WITH(number, second, claim)                                                      \
    "{\"id\":\"s." number ".0\",\"stream\":\"demo\",\"shard_id\":\"s\",\"sequence_number\":"       \
    "\"" number "\",\"partition_key\":\"k\",\"approximate_arrival_timestamp\":null,"               \
    "\"first_died_at\":\"2026-11-20T00:00:00.000Z\",\"died_at\":\"2026-11-21T00:00:" second        \
    ".000Z\",\"attempts\":1,\"cause\":\"asked\",\"reason\":\"bad\"" claim                          \
    ",\"data\":\"ZGF0YQ==\"}\n"

extern struct ks_loop *s3_loop;
extern struct ks_dead_letters *s3_store;
extern struct http_script *s3_script;

/* What was answered last. */
extern struct s3_told {
    uint32_t times;
    enum ks_outcome outcome;
    uint32_t count;
    bool more;
    struct ks_detail detail;
    char ids[8][KS_LETTER_ID_MAX + 1];
    char reasons[8][128];
    char claim[64];         /* Of the first. */
    struct ks_letter first; /* Without its views. */
} s3_told;

void s3_begin(const struct http_step *steps, size_t count);
/* Attempts of each request; without it: one. */
void s3_begin_with(const struct http_step *steps, size_t count, uint32_t attempts);
void s3_finish(void);

ks_letters_answered s3_answered;
void s3_await(uint32_t times);

/* The letter of this id, given up at 2026-11-21T00:00:SECOND. */
struct ks_letter s3_letter(const char *id, int second);
/* Each asks and waits. */
enum ks_outcome s3_write(const char *id, int second);
/* With the attempts of S3_OBJECT. */
enum ks_outcome s3_claim(const char *id, const char *claim);
/* Under this claim; "": under any. */
enum ks_outcome s3_amend(const char *id, const char *claim);
enum ks_outcome s3_list(const char *after, uint32_t most);
enum ks_outcome s3_find(const char *id);
enum ks_outcome s3_remove(const char *id, const char *claim);

#endif
