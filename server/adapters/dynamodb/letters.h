/* SPDX-License-Identifier: Apache-2.0 */
/* letters.h - dead letters in a DynamoDB table with the keys p and k: in the lease table itself, where it is ours, or
 * in one of their own.
 *
 * Every worker of the application sees all of them, and they survive each of its processes. A letter is written as a
 * pointer: the record stays in the stream (ports/dead_letters.h). Items: letter_item.h. Each letter is a conditional
 * UpdateItem; one of which it is not known whether it was done may be written again. Lists are read strongly
 * consistent, shard by shard: of each in the order of its letters' ids, shards in the order of their ids.
 * Loop thread only.
 */
#ifndef KS_ADAPTERS_DYNAMODB_LETTERS_H
#define KS_ADAPTERS_DYNAMODB_LETTERS_H

#include "aws/client.h"
#include "base/loop.h"
#include "ports/dead_letters.h"

/* `client` is of KS_AWS_DYNAMODB and outlives the store. The first write makes the table if it is not there. `stream`
 * is part of the keys, where letters of several streams may share the table; NULL: they do not. Copied. Returns before
 * the table was reached: calls wait for that. While it cannot be used they are answered UNKNOWN or, of a write,
 * REFUSED, with the reason. INVALID with a detail (no name for a table), NO_MEMORY. Not to be closed from within an
 * `answered`. */
KS_MUST_USE ks_err ks_dynamodb_letters_open(struct ks_loop *loop, struct ks_aws_client *client,
                                            const char *table, const char *stream,
                                            struct ks_dead_letters **ret,
                                            struct ks_detail *ret_detail);

#endif
