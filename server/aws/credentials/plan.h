/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what a profile means: where keys come from, and which roles are assumed with them.
 *
 * The order is that of botocore (the SDK guide, "Assume role credential provider"):
 *  - role_arn without web_identity_token_file: a role, assumed with the credentials of
 *    source_profile (which may be a role again; itself, if it has keys; its keys come before its
 *    own role_arn) or of credential_source (Environment, EcsContainer, Ec2InstanceMetadata);
 *  - web identity: AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN and AWS_ROLE_SESSION_NAME, each over
 *    the key of the profile; in a source profile only its keys count;
 *  - keys in the credentials file, credential_process, keys in the config file.
 * SSO, login_session (in order before credential_process) and roles that want MFA are UNSUPPORTED: nobody
 * is there to log in. Pure.
 */
#ifndef KS_AWS_CREDENTIALS_PLAN_H
#define KS_AWS_CREDENTIALS_PLAN_H

#include "aws/credentials/profiles.h"

/* A role as STS is asked for it. Views: empty, or 0, for what is not said. */
struct ks_role {
    ks_view arn;
    ks_view session_name;
    ks_view external_id;
    uint32_t duration_seconds;
};

/* Where the first keys come from. */
enum ks_plan_base {
    KS_PLAN_NOTHING, /* The profile says nothing about credentials. */
    KS_PLAN_KEYS,
    KS_PLAN_PROCESS,
    KS_PLAN_WEB_IDENTITY,
    KS_PLAN_ENVIRONMENT,
    KS_PLAN_CONTAINER,
    KS_PLAN_INSTANCE
};

struct ks_plan {
    enum ks_plan_base base;
    ks_view access_key; /* KEYS. */
    ks_view secret_key;
    ks_view token;
    ks_view account;
    ks_view process;                    /* PROCESS: the command line. */
    ks_view token_file;                 /* WEB_IDENTITY: its path, and its role. */
    struct ks_role web_role;            /* Not in `roles`. */
    struct ks_role roles[KS_ROLES_MAX]; /* In the order in which they are assumed. */
    uint32_t role_count;
};

/* What is looked at. */
struct ks_plan_question {
    ks_view text[KS_PROFILE_FILES];
    const char *profile; /* At most KS_PROFILE_NAME_MAX characters. */
    bool named;          /* Somebody asked for it: it must be there. */
    /* Of the environment; NULL: not set, or not asked. */
    const char *token_file;
    const char *role_arn;
    const char *session_name;
};

/* Makes the plan; views into the question. MALFORMED, INVALID (also for source profiles in a
 * circle), and for more than KS_ROLES_MAX roles), UNSUPPORTED, always with a detail that holds no
 * secret. */
KS_MUST_USE ks_err ks_plan_make(const struct ks_plan_question *question, struct ks_plan *ret_plan,
                                struct ks_detail *detail);

#endif
