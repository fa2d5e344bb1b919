/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h - the key pair that signs, kept fresh.
 *
 * A source asks its providers in the order of botocore until one has credentials: the environment,
 * a role in the profile (not supported yet: says so), web identity (IRSA), the profile files, the
 * container endpoint (ECS, EKS Pod Identity). An explicitly named profile is asked for alone,
 * without environment and web identity. The one that answered is asked again before its credentials
 * expire:
 *  - from 15 minutes before (advisory), in the background, while the old ones go on;
 *  - from 10 minutes before (mandatory), callers wait for the new ones;
 *  - each at most half or a quarter of a short life before its end, and up to a minute earlier by
 * chance, so that a fleet does not ask in step. Everybody who waits shares one fetch. While a
 * refresh fails, the old ones are used until they expire.
 *
 * Secrets: never logged; wiped when dropped. Loop thread only.
 */
#ifndef KS_AWS_CREDENTIALS_H
#define KS_AWS_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/limits.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct ks_http;
struct ks_credentials_source;

struct ks_credentials {
    char access_key[KS_ACCESS_KEY_MAX + 1];
    char secret_key[KS_SECRET_KEY_MAX + 1];
    char token[KS_SESSION_TOKEN_MAX + 1]; /* "": none. */
    bool expires;
    ks_span life; /* If they expire: how long they lived still when they came. */
};

/* Forgets the secrets for good. */
void ks_credentials_wipe(struct ks_credentials *credentials);

struct ks_credentials_options {
    struct ks_loop *loop;
    struct ks_http *http; /* Outlives the source. */
    const char
        *profile; /* Named by an option; NULL: AWS_PROFILE, AWS_DEFAULT_PROFILE, "default". */
    const char *sts_region; /* Where web identity asks; "" or NULL: us-east-1. */
    uint64_t seed;          /* For the jitter. */
};

/* Reads nothing yet. INVALID with a detail (a variable that cannot be right), NO_MEMORY. */
KS_MUST_USE ks_err ks_credentials_source_new(const struct ks_credentials_options *options,
                                             struct ks_credentials_source **ret_source,
                                             struct ks_detail *detail);
/* Those who wait are forgotten. Before ks_http_free. NULL is allowed. */
void ks_credentials_source_free(struct ks_credentials_source *source);

/* The credentials to sign with, valid until the loop goes on; or NULL: wait for them. May begin a
 * refresh. */
const struct ks_credentials *ks_credentials_now(struct ks_credentials_source *source);

/* One who waits. The struct belongs to the caller and stays where it is until `done`. */
struct ks_credentials_waiter {
    /* Called once, in a later turn. `credentials` is NULL if there are none: `err` and `detail` say
     * why. Valid during the call. */
    void (*done)(struct ks_credentials_waiter *waiter, ks_err err,
                 const struct ks_credentials *credentials, const struct ks_detail *detail);
    struct ks_link link; /* The source's own. */
};

void ks_credentials_wait(struct ks_credentials_source *source,
                         struct ks_credentials_waiter *waiter);
/* Only for one who waits. */
void ks_credentials_unwait(struct ks_credentials_waiter *waiter);

/* AWS says that the token of the credentials in use has expired: they are dropped and the next
 * caller waits for new ones. */
void ks_credentials_expired(struct ks_credentials_source *source);

/* For readiness: KS_OK, or why the last fetch failed. */
ks_err ks_credentials_state(const struct ks_credentials_source *source,
                            struct ks_detail *ret_detail);

#endif
