/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h - the key pair that signs, kept fresh.
 *
 * A source asks its places in the order of botocore until one has credentials:
 *  - the environment;
 *  - the profile (aws/credentials/plan.h): a role that it assumes; web identity (IRSA, also of the
 *    environment); its keys in the credentials file, its credential_process, its keys in the config
 *    file;
 *  - the container endpoint (ECS, EKS Pod Identity);
 *  - the instance metadata service of EC2.
 * An explicitly named profile is asked for alone. Or the source assumes one role with the
 * credentials of another source. The place that answered is asked again from 15 minutes before they
 * expire (of a short life: from its half), and up to a minute earlier by chance, so that a fleet
 * does not ask in step. That happens in the background: leases are renewed with the old ones
 * meanwhile, and while it fails, until they expire; nobody waits as long as there are some. Those
 * of an instance role are used beyond their end, until AWS itself refuses them, for EC2 stretches
 * them when its own supply fails (static stability). Everybody who waits shares one fetch.
 *
 * Secrets: never logged; wiped when dropped. Loop thread only.
 */
#ifndef KS_AWS_CREDENTIALS_H
#define KS_AWS_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/arn.h"
#include "aws/endpoint.h"
#include "aws/limits.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct ks_credentials_source;
struct ks_http;
struct ks_prng;

struct ks_credentials {
    char access_key[KS_ACCESS_KEY_MAX + 1];
    char secret_key[KS_SECRET_KEY_MAX + 1];
    char token[KS_SESSION_TOKEN_MAX + 1]; /* "": none. */
    char account[KS_ACCOUNT_SIZE];        /* Whose they are; "": not told. */
    bool expires;
    ks_span life;  /* If they expire: how long they lived still when they came. */
    bool outlasts; /* They may be used beyond their end while no others come. */
};

/* Forgets the secrets for good. */
void ks_credentials_wipe(struct ks_credentials *credentials);

struct ks_credentials_options {
    struct ks_loop *loop;
    struct ks_http *http; /* Outlives the source. */
    const char
        *profile; /* Named by an option; NULL: AWS_PROFILE, AWS_DEFAULT_PROFILE, "default". */
    const struct ks_endpoint_rules
        *sts; /* Where STS is, if it is asked. Copied, its texts borrowed; NULL: in us-east-1. */
    const char *service; /* Which they are for, in the metrics; a literal. NULL: "all". */
    /* Not NULL: this role is assumed with the credentials of `base`, which outlives the source; the
     * profile does not count. Strings are copied; the id may be NULL or "". */
    struct ks_credentials_source *base;
    const char *role_arn;
    const char *external_id;
    uint64_t seed; /* For the jitter. */
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

/* AWS says that the token of credentials has expired, or that it does not know them. `access_key` is the one that the
 * request was signed with: if those are in use still, they are dropped, and the next caller waits for new ones. A late
 * answer to a request that was signed with former ones changes nothing. */
void ks_credentials_expired(struct ks_credentials_source *source, const char *access_key);

/* When those that live so long still are asked for anew, in the background: see above. Pure. */
ks_span ks_credentials_refresh_after(ks_span life, struct ks_prng *prng);

/* For readiness: KS_OK, or why the last fetch failed. */
ks_err ks_credentials_state(const struct ks_credentials_source *source,
                            struct ks_detail *ret_detail);

#endif
