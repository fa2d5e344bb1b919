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
#include "base/bytes.h"

struct ks_provider;

struct ks_provider_vtable {
    const char *name; /* "the environment", for people. */
    /* Begins to fetch. Only if it is not fetching. */
    void (*fetch)(struct ks_provider *provider);
    /* Ends what it does and frees it; no answer comes any more. */
    void (*close)(struct ks_provider *provider);
};

struct ks_provider {
    const struct ks_provider_vtable *vtable;
    struct ks_loop *loop;
    struct ks_timer timer; /* Brings the answer in a later turn. */
    void (*fetched)(void *arg, struct ks_provider *provider);
    void *arg;

    /* The answer; readable during `fetched`, then wiped. */
    ks_err err;
    struct ks_detail detail;
    struct ks_credentials credentials;
};

/* For providers: sets up the common part of a zeroed struct, and takes it down again. */
void ks_provider_init(struct ks_provider *provider, const struct ks_provider_vtable *vtable,
                      struct ks_loop *loop);
void ks_provider_end(struct ks_provider *provider);
/* Answers with what is in provider->credentials or, if not KS_OK, with `err` and provider->detail.
 */
void ks_provider_answer(struct ks_provider *provider, ks_err err);

/* Copies the key pair and the token. INVALID if one is empty, too long, or no printable ASCII. */
KS_MUST_USE ks_err ks_provider_set(struct ks_provider *provider, ks_view access_key,
                                   ks_view secret_key, ks_view token);
/* Sets the end of their life: `expiration` in RFC 3339, `head` of the answer for the server's own
 * clock (its Date), or empty for ours. INVALID. */
KS_MUST_USE ks_err ks_provider_set_expiration(struct ks_provider *provider, ks_view expiration,
                                              ks_view head);

/* The places. NO_MEMORY. */
KS_MUST_USE ks_err ks_provider_environment_new(struct ks_loop *loop,
                                               struct ks_provider **ret_provider);
/* `name`: the profile; `named`: somebody asked for this one, so that it must be there. `roles`:
 * answers UNSUPPORTED if the profile assumes a role, and NO_CREDENTIALS otherwise: roles come
 * before web identity, key pairs behind it. */
KS_MUST_USE ks_err ks_provider_profile_new(struct ks_loop *loop, const char *name, bool named,
                                           bool roles, struct ks_provider **ret_provider);
KS_MUST_USE ks_err ks_provider_web_identity_new(struct ks_loop *loop, struct ks_http *http,
                                                const char *region,
                                                struct ks_provider **ret_provider);
KS_MUST_USE ks_err ks_provider_container_new(struct ks_loop *loop, struct ks_http *http,
                                             struct ks_provider **ret_provider);

enum { KS_CHAIN_MAX = 8 };

/* One after the other until one has credentials; from then on only that one. Owns them, also if it
 * fails. */
KS_MUST_USE ks_err ks_provider_chain_new(struct ks_loop *loop, struct ks_provider *const *providers,
                                         uint32_t count, struct ks_provider **ret_provider);

#endif
