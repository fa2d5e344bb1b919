/* SPDX-License-Identifier: Apache-2.0 */
/* lease_store_dynamodb.h - DynamoDB stores in tests, beside the emulator at KS_DYNAMODB_URL.
 *
 * One world for each test process. Everything that goes wrong in here fails the test.
 */
#ifndef TESTS_CONTRACT_LEASE_STORE_DYNAMODB_H
#define TESTS_CONTRACT_LEASE_STORE_DYNAMODB_H

#include "adapters/dialects/dialect.h"
#include "aws_rig.h"
#include "contract/lease_store_rig.h"

struct dynamodb_world {
    struct aws_rig aws;
    char table[64];
};

void dynamodb_world_open(struct lease_rig *rig, const char *url);
void dynamodb_world_close(void);
/* The server answers nothing from when this returns: a signal takes its time where there is much to do. */
void dynamodb_stop(void);
void dynamodb_go_on(void);

/* A name that nobody has used. */
const char *dynamodb_table(void);
/* A store on this table; it is not waited for. */
struct ks_lease_store *dynamodb_open(struct lease_rig *rig, const char *table);
struct ks_lease_store *dynamodb_open_as(struct lease_rig *rig, const char *table,
                                        const struct ks_dialect *dialect);
/* False, with why, if it cannot be opened. */
bool dynamodb_opens(struct lease_rig *rig, const char *table, struct ks_lease_store **ret_store,
                    struct ks_detail *ret_detail);
/* What the client has done so far. */
void dynamodb_requests(struct ks_aws_state *ret_state);
/* Turns the loop until the store is no longer OPENING; at most 10 s. */
enum ks_store_state dynamodb_await(struct lease_rig *rig, struct ks_lease_store *store,
                                   struct ks_detail *ret_detail);
/* A call of the API; it must succeed. */
void dynamodb_raw(struct lease_rig *rig, const char *operation, ks_view body,
                  struct ks_bytes *ret_answer);

#endif
