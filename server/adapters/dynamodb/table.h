/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the DynamoDB table as such: is it there, is it ours, is it ready?
 *
 * Asks DescribeTable until the table is ACTIVE. One that is not there is made (CreateTable with the
 * keys p and k, PAY_PER_REQUEST), when the caller allows it; who loses that race waits for the winner's. One with
 * other keys belongs to another program and is never changed. A table that disappears after it was ready is not created
 * again: a new one would have no checkpoints. An optional one is made by others: while it is not there, it
 * is READY and absent. Goes on asking while it cannot be used, in case somebody
 * repairs it. Loop thread only.
 */
#ifndef KS_ADAPTERS_DYNAMODB_TABLE_H
#define KS_ADAPTERS_DYNAMODB_TABLE_H

#include "adapters/dynamodb/wire.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/lease_store.h"

enum {
    KS_DYNAMODB_CALL_MS = 5000,       /* A call about the table; nobody waits for it. */
    KS_DYNAMODB_CREATING_MS = 500,    /* Between two looks at one that is being created. */
    KS_DYNAMODB_AGAIN_MS = 1000,      /* After a call that failed. */
    KS_DYNAMODB_UNUSABLE_MS = 10000,  /* While somebody must look. */
    KS_DYNAMODB_ABSENT_MS = 30000,    /* While an optional one is not there. */
    KS_DYNAMODB_ANSWER_MAX = 64 << 10 /* Bytes of a description. */
};

/* True if a table that is not there may be made now; else the detail says what is waited for. */
typedef bool ks_dynamodb_may_make(void *arg, struct ks_detail *detail);

struct ks_dynamodb_table {
    struct ks_loop *loop;
    struct ks_aws_client *client;
    const char *key;  /* The one key attribute of a dialect's table; NULL: p and k. */
    const char *what; /* For the log: "lease table". */
    char name[KS_DYNAMODB_TABLE_MAX + 1];
    bool optional;
    const char *beside; /* Where access is denied: this table tells, by whether it has .. */
    const char *index;  /* .. this index. */
    bool absent;        /* While READY: it is not there. */
    enum ks_store_state state;
    ks_err err; /* While UNUSABLE: why. */
    struct ks_detail detail;
    bool was_ready;
    ks_dynamodb_may_make *may_make; /* NULL: at any time. */
    void *may_make_arg;
    struct ks_aws_call *call;
    struct ks_timer timer;
};

/* Begins to ask. One that is `optional` is not made. An optional one to which access is denied counts as not there as
 * long as the table `beside` has no global index `index`; either NULL: it is unusable. What is pointed to outlives it.
 * INVALID: no name for a table. */
KS_MUST_USE ks_err ks_dynamodb_table_open(struct ks_dynamodb_table *table, struct ks_loop *loop,
                                          struct ks_aws_client *client, const char *what,
                                          const char *name, const char *key, bool optional,
                                          const char *beside, const char *index,
                                          struct ks_detail *ret_detail);
void ks_dynamodb_table_close(struct ks_dynamodb_table *table);

/* A request was told that there is no such table: asks again, and until then it is not ready. */
void ks_dynamodb_table_gone(struct ks_dynamodb_table *table);

/* The sentence for a denied call: which permission is missing on which table, and to whom. */
void ks_dynamodb_table_denied(const struct ks_dynamodb_table *table, const char *operation,
                              const struct ks_failure *failure, struct ks_detail *ret_detail);

#endif
