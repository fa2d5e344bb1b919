/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar.h - a process of the binary KINESIS_SIDECAR_BIN with a local stream of two shards.
 * There is one for each test. */
#ifndef SIDECAR_H
#define SIDECAR_H

#include "check.h"

/* Starts the sidecar on a Unix socket. `token`: of its apps; NULL: none. */
void sidecar_start(const char *token);

/* Starts it on a port of 127.0.0.1. */
void sidecar_start_on_port(void);

/* Kills it by SIGKILL and starts it again. */
void sidecar_restart(void);

/* Ends it and removes its files. */
void sidecar_end(void);

/* The address for a consumer, and the path of the file with the token; "": none. */
const char *sidecar_url(void);
const char *sidecar_token_file(void);

/* Puts `count` records with the data 0, 1, 2 .. in turn for `keys` keys: "key-0", "key-1" .. */
void sidecar_put(int count, int keys);

/* The answer of GET `path`, valid until the next call. */
const char *sidecar_get(const char *path);

/* The sum of a number in the answer of GET /v1/shards, for example "settled". */
long sidecar_sum(const char *member);

#endif
