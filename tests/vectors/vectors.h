/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.h - where the agreed bytes come from: our own files, and those of others in VECTORS_DIR.
 *
 * A run says how many cases it read from where, and which it did not read.
 */
#ifndef KS_TEST_VECTORS_H
#define KS_TEST_VECTORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { VECTORS_PATH_MAX = 512 };

/* The path of `name` within VECTORS_DIR. False, and said that `what` is not read, where it is not set. */
bool vectors_path(const char *name, const char *what, char ret_path[VECTORS_PATH_MAX]);
/* A file of JSON; a test without it fails. The caller's: json_decref. */
json_t *vectors_load(const char *path);
/* A text member; "" if there is none. */
const char *vectors_text(const json_t *object, const char *name);
/* "read 12 cases from PATH"; the test fails if they are fewer than `least`. */
void vectors_read(size_t count, size_t least, const char *path);

#endif
