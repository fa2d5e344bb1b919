/* SPDX-License-Identifier: Apache-2.0 */
/* letter_asks.h - the open calls to a store of dead letters in S3, and the requests of each.
 *
 * A call becomes an ask. An ask is about parts, an object each: a part has one request under way at most, and an ask
 * KS_S3_LETTERS_AT_ONCE. An ask without a request under way is answered, and freed. For letters.c (changes) and
 * letter_reads.c (find and list) only.
 */
#ifndef KS_ADAPTERS_S3_LETTER_ASKS_H
#define KS_ADAPTERS_S3_LETTER_ASKS_H

#include "adapters/letter.h"
#include "adapters/s3/letter_object.h"
#include "adapters/s3/requests.h"
#include "base/list.h"
#include "base/loop.h"

enum {
    KS_S3_LETTERS_AT_ONCE = 16,     /* Requests of one ask under way at one time. */
    KS_S3_PAGE_BYTES_MAX = 8 << 20, /* A key takes 4 KiB in XML at most, and about 500 bytes. */
    /* An object may grow between the listing and the reading, by a reason or a claim. */
    KS_S3_GROWTH_BYTES = KS_LETTER_OBJECT_HEAD_MAX,
    KS_S3_FOLDER_MAX = KS_S3_PREFIX_MAX + 255 + 1 + KS_STREAM_NAME_MAX + 1
};

struct ks_s3_ask;

enum ks_s3_task {
    KS_S3_LETTERS_WRITE,
    KS_S3_LETTERS_LIST,
    KS_S3_LETTERS_FIND,
    KS_S3_LETTERS_CLAIM,
    KS_S3_LETTERS_AMEND,
    KS_S3_LETTERS_REMOVE
};

struct ks_s3_letters {
    struct ks_dead_letters port;
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_s3_place place;
    char folder[KS_S3_FOLDER_MAX + 1];
    struct ks_link asks;
    struct ks_bytes body;      /* Of the object that is being written. */
    struct ks_bytes bytes;     /* Of the object that is being read. */
    struct ks_aws_call *probe; /* Whether the bucket can be listed; NULL: that is known. */
    bool damaged;              /* The last list met damaged objects, and that was logged. */
    /* The answer to a request about a part, which is its argument. */
    void (*came)(void *arg, const struct ks_aws_answer *answer);
    /* Begins what can be begun of an ask, or answers it. */
    void (*turn)(struct ks_s3_ask *ask);
};

/* An object that an ask is about, with one request under way at most. */
struct ks_s3_part {
    struct ks_s3_ask *ask;
    struct ks_aws_call *call;
    enum ks_s3_operation operation; /* Of the request. */
    uint32_t tries;
    char id[KS_LETTER_ID_MAX + 1];
    char etag[KS_S3_ETAG_MAX + 1]; /* Of the object as it was read; "": it was not. */
    uint64_t size;                 /* As it was listed. */
    struct ks_bytes object;        /* As it was read for a list. */
    bool gone;                     /* It was removed since it was listed. */
    bool oversized;                /* No letter is so large. */
};

struct ks_s3_ask {
    struct ks_s3_letters *store;
    struct ks_link link;
    enum ks_s3_task task;
    struct ks_letter_list list; /* What is written; of a list or of a find: what was read. */
    ks_instant deadline;
    struct ks_s3_part *parts;
    uint32_t part_count;
    uint32_t parts_max;
    uint32_t next;                 /* The part that is begun next. */
    uint32_t open;                 /* Requests without an answer. */
    char after[KS_S3_KEY_MAX + 1]; /* Of a list: its next page follows this key. */
    uint64_t bytes;                /* Of a list: of the objects in `parts`. */
    uint32_t damaged;              /* Objects of a list that are no sound letters. */
    bool maybe;                    /* Of a write: some of it was done, or may have been. */
    struct ks_aws_call *page;      /* The request for keys, of a list. */
    struct ks_timer timer;
    struct ks_letters_answer answer;
    ks_letters_answered *answered;
    void *arg;
};

/* An ask with room for `most` letters and parts. NULL: no memory; that was answered. */
struct ks_s3_ask *ks_s3_ask_new(struct ks_s3_letters *store, enum ks_s3_task task, uint32_t most,
                                ks_letters_answered *answered, void *arg);
/* Adds the part of the letter of this id. INVALID: no letter has such an id. */
KS_MUST_USE ks_err ks_s3_ask_add(struct ks_s3_ask *ask, ks_view id);
/* Cancels its requests. */
void ks_s3_ask_free_parts(struct ks_s3_ask *ask);
void ks_s3_ask_free(struct ks_s3_ask *ask);

/* Answers and frees it; no request is under way. */
void ks_s3_ask_finish(struct ks_s3_ask *ask);
/* The same in a later turn, */
void ks_s3_ask_answer_later(struct ks_s3_ask *ask);
/* and with this outcome. `why` may be NULL. */
void ks_s3_ask_refuse(struct ks_s3_ask *ask, enum ks_outcome outcome, const char *why);

/* Its outcome is UNKNOWN. The first failure is reported. */
void ks_s3_ask_fail(struct ks_s3_ask *ask, const char *detail);
void ks_s3_ask_fail_by_answer(struct ks_s3_ask *ask, enum ks_s3_operation operation,
                              const struct ks_aws_answer *answer);
/* Counts an object that is no sound letter; of the first one the detail of the answer says what is damaged. */
void ks_s3_ask_note_damage(struct ks_s3_ask *ask, const char *key, const char *damage);

/* Sends a request in the time that the ask has left. TIMEOUT, and as ks_aws_call. */
KS_MUST_USE ks_err ks_s3_ask_send(struct ks_s3_ask *ask, struct ks_s3_request *request,
                                  struct ks_aws_call **ret_call);
/* Sends a request about the object of the part; a failure is one of the ask. */
void ks_s3_part_send(struct ks_s3_part *part, struct ks_s3_request *request);
/* GetObject. */
void ks_s3_part_get(struct ks_s3_part *part);

#endif
