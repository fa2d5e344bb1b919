/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h - the shared config and credentials files of the AWS tools (~/.aws/config,
 * ~/.aws/credentials).
 *
 * Format ("Configuration and credential file settings" of the AWS SDK guide, and what Python's
 * configparser and the SDKs make of it): `[section]`, `key = value` or `key: value`; a line that begins
 * with # or ; is a comment, and so is what begins with them behind a blank in a value (not to Python); a
 * line that is indented deeper than the key before it belongs to that key: of a profile it
 * is skipped, in `[services NAME]` it says something about that service. In the config file a profile
 * is `[profile NAME]`, but `[default]`; in the credentials file `[NAME]`. Keys are read without case;
 * what comes later wins. Which profile: the option, else AWS_PROFILE, else AWS_DEFAULT_PROFILE, else
 * "default". Which file: AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE, else in ~/.aws; a leading ~/ is
 * HOME.
 */
#ifndef KS_AWS_PROFILE_H
#define KS_AWS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/limits.h"
#include "base/bytes.h"

enum ks_profile_file { KS_PROFILE_CONFIG, KS_PROFILE_CREDENTIALS };

/* What a file says about one profile: views into its text; size 0 for what it does not say. */
struct ks_profile {
    bool found;
    ks_view access_key;
    ks_view secret_key;
    ks_view token;
    ks_view account;
    ks_view region;
    ks_view role_arn;
    ks_view source_profile;
    ks_view credential_source;
    ks_view external_id;
    ks_view role_session_name;
    ks_view duration_seconds;
    ks_view mfa_serial;
    ks_view web_identity_token_file;
    ks_view sso;   /* sso_session or sso_start_url. */
    ks_view login; /* login_session. */
    ks_view process;
    ks_view ec2_endpoint; /* ec2_metadata_service_endpoint, .. */
    ks_view ec2_endpoint_mode;
    ks_view ec2_v1_disabled;
    /* How AWS is reached; aws/settings.h. */
    ks_view endpoint_url;
    ks_view services;
    ks_view ignore_urls;
    ks_view fips;
    ks_view dualstack;
    ks_view account_mode;
    ks_view ca_bundle;
    ks_view max_attempts;
    ks_view retry_mode;
};

/* Reads profile `name`. MALFORMED: line `ret_line`, counted from 1, is no section, key or comment.
 * Pure. */
KS_MUST_USE ks_err ks_profile_parse(ks_view text, enum ks_profile_file file, const char *name,
                                    struct ks_profile *ret_profile, uint32_t *ret_line);

/* Lays what `above` says over `profile`, key by key; a key pair goes as a whole, with its token and account. */
void ks_profile_lay(struct ks_profile *profile, const struct ks_profile *above);
/* Reads endpoint_url of `service` ("kinesis") in section `[services NAME]` of a config file; `ret_url` is
 * empty if it is not said. As above. */
KS_MUST_USE ks_err ks_profile_service_url(ks_view text, ks_view services, const char *service,
                                          ks_view *ret_url, uint32_t *ret_line);

/* The name of the profile to use; `ret_named`: somebody asked for it. FULL: longer than
 * KS_PROFILE_NAME_MAX. */
KS_MUST_USE ks_err ks_profile_name(const char *option, char ret_name[KS_PROFILE_NAME_MAX + 1],
                                   bool *ret_named);
/* The path of a file; `ret_named`: a variable names it. NOT_FOUND: there is neither that nor a
 * HOME; FULL: it is longer than KS_PATH_MAX. */
KS_MUST_USE ks_err ks_profile_path(enum ks_profile_file file, char ret_path[KS_PATH_MAX + 1],
                                   bool *ret_named);
/* What a failure to read such a file comes to: KS_OK if it simply is not there. A file that nobody
 * named and that we may not see (somebody else's HOME in a container) is not there for us. */
ks_err ks_profile_missing(ks_err err, bool named);

#endif
