/* SPDX-License-Identifier: Apache-2.0 */
/* provider.h - where credentials come from: one interface for every place.
 *
 * A provider fetches when it is asked and answers once, in a later turn, through `fetched`.
 * NO_CREDENTIALS means that nobody set it up, and the next one may be asked; every other failure is
 * told to whoever set it up. The whole floor sees this header only through aws/credentials.h.
 */
#ifndef KS_AWS_CREDENTIALS_PROVIDER_H
#define KS_AWS_CREDENTIALS_PROVIDER_H

#include "aws/credentials.h"
#include "aws/credentials/plan.h"
#include "base/bytes.h"

struct ks_provider;

struct ks_provider_vtable {
    const char *name; /* "the environment", for people. */
    /* Begins to fetch. Only if it is not fetching. */
    void (*fetch)(struct ks_provider *provider);
    /* Ends what it does and frees it; no answer comes any more. */
    void (*close)(struct ks_provider *provider);
    /* AWS calls the credentials with this access key expired: for one that keeps something. NULL: it keeps nothing. */
    void (*expired)(struct ks_provider *provider, const char *access_key);
};

struct ks_provider {
    const struct ks_provider_vtable *vtable;
    struct ks_loop *loop;
    struct ks_timer timer; /* Brings the answer in a later turn. */
    void (*fetched)(void *arg, struct ks_provider *provider);
    void *arg;

    /* The answer; readable during `fetched`, then wiped. */
    ks_err err;
    struct ks_detail detail; /* Why it failed; of KS_OK: more about where they come from, or "". */
    struct ks_credentials credentials;
};

/* For providers: sets up the common part of a zeroed struct, and takes it down again. */
void ks_provider_init(struct ks_provider *provider, const struct ks_provider_vtable *vtable,
                      struct ks_loop *loop);
void ks_provider_end(struct ks_provider *provider);
/* Answers with what is in provider->credentials or, if not KS_OK, with `err` and provider->detail.
 */
void ks_provider_answer(struct ks_provider *provider, ks_err err);

/* A variable of the environment; NULL if it is not set, or empty. */
const char *ks_provider_variable(const char *name);
/* Copies the key pair and the token. INVALID if one is empty, too long, or no printable ASCII. */
KS_MUST_USE ks_err ks_provider_set(struct ks_provider *provider, ks_view access_key,
                                   ks_view secret_key, ks_view token);
/* Sets whose they are; what is no account is left out. After ks_provider_set. */
void ks_provider_set_account(struct ks_provider *provider, ks_view account);
/* Sets the end of their life: `expiration` in RFC 3339, `head` of the answer for the server's own
 * clock (its Date), or empty for ours. INVALID. */
KS_MUST_USE ks_err ks_provider_set_expiration(struct ks_provider *provider, ks_view expiration,
                                              ks_view head);

/* What providers are made with; all of it outlives them. */
struct ks_provider_setup {
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_prng *prng; /* For the jitter. */
    const struct ks_endpoint_rules
        *sts;            /* Whether it can be there is looked at when it is asked. */
    const char *profile; /* The name of the profile in use. */
    bool profile_named;  /* Somebody asked for this one, so that it must be there. */
    bool profile_only;   /* The environment does not count. */
};

/* The places. NO_MEMORY; none of them keeps a pointer to the setup itself. */
KS_MUST_USE ks_err ks_provider_environment_new(const struct ks_provider_setup *setup,
                                               struct ks_provider **ret_provider);
/* What the profile says: its keys, process, web identity (also that of the environment) or roles.
 */
KS_MUST_USE ks_err ks_provider_profile_new(const struct ks_provider_setup *setup,
                                           struct ks_provider **ret_provider);
KS_MUST_USE ks_err ks_provider_container_new(const struct ks_provider_setup *setup,
                                             struct ks_provider **ret_provider);
KS_MUST_USE ks_err ks_provider_imds_new(const struct ks_provider_setup *setup,
                                        struct ks_provider **ret_provider);

/* What those are put together from; strings and views are copied. */

/* A key pair that is there already, that of a plan. INVALID as ks_provider_set. */
KS_MUST_USE ks_err ks_provider_keys_new(const struct ks_provider_setup *setup,
                                        const struct ks_plan *plan,
                                        struct ks_provider **ret_provider);
/* What the program of a credential_process writes. INVALID: the line cannot be split into words. */
KS_MUST_USE ks_err ks_provider_process_new(const struct ks_provider_setup *setup, ks_view line,
                                           struct ks_provider **ret_provider);
/* AssumeRoleWithWebIdentity; the file is read at each fetch. INVALID: something is too long. */
KS_MUST_USE ks_err ks_provider_web_identity_new(const struct ks_provider_setup *setup,
                                                ks_view token_file, const struct ks_role *role,
                                                struct ks_provider **ret_provider);
/* AssumeRole, signed with what `base` gives; owns it, also if it fails. INVALID: something is too
 * long. */
KS_MUST_USE ks_err ks_provider_assume_role_new(const struct ks_provider_setup *setup,
                                               struct ks_provider *base, const struct ks_role *role,
                                               struct ks_provider **ret_provider);
/* What another source has; it outlives the provider. */
KS_MUST_USE ks_err ks_provider_shared_new(const struct ks_provider_setup *setup,
                                          struct ks_credentials_source *source,
                                          struct ks_provider **ret_provider);

enum { KS_CHAIN_MAX = 8 };

/* One after the other until one has credentials; from then on only that one. Owns them, also if it
 * fails. */
KS_MUST_USE ks_err ks_provider_chain_new(struct ks_loop *loop, struct ks_provider *const *providers,
                                         uint32_t count, struct ks_provider **ret_provider);

#endif
