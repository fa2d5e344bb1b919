/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters_s3.h - the bucket of the rig, for tests that read and write behind the store.
 *
 * The server is that of KS_S3_URL (versitygw), else that of KS_MOTO_URL.
 */
#ifndef TESTS_CONTRACT_DEAD_LETTERS_S3_H
#define TESTS_CONTRACT_DEAD_LETTERS_S3_H

#include "adapters/s3/letter_object.h"
#include "contract/dead_letters_rig.h"

/* What all keys of the store of the rig begin with. */
#define LETTERS_S3_FOLDER "letters/app/demo/"

/* Puts an object; the test fails if that fails. `body` NULL: deletes it. */
void letters_s3_put(const char *key, const char *body);
/* The object of this key, in memory of the rig until the next call; "": there is none. */
const char *letters_s3_get(const char *key);

#endif
