/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters_dynamodb.h - the table of the rig, for tests that look behind the store. */
#ifndef TESTS_CONTRACT_DEAD_LETTERS_DYNAMODB_H
#define TESTS_CONTRACT_DEAD_LETTERS_DYNAMODB_H

#include "adapters/dynamodb/letter_item.h"
#include "contract/dead_letters_rig.h"

const char *letters_dynamodb_table(void);
/* Performs a request; it fails the test if it fails. */
void letters_dynamodb_raw(const char *operation, const char *body);

#endif
