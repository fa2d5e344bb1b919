/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h - the shared config and credentials files of the AWS tools (~/.aws/config,
 * ~/.aws/credentials).
 *
 * Format ("Configuration and credential file settings" of the AWS SDK guide, and what Python's
 * configparser makes of it): `[section]`, `key = value`; a line that begins with # or ; is a
 * comment; a line that is indented deeper than the key before it belongs to that key and is
 * skipped. In the config file a profile is `[profile NAME]`, but `[default]`; in the credentials
 * file `[NAME]`. Keys are read without case; what comes later wins. Which profile: the option, else
 * AWS_PROFILE, else AWS_DEFAULT_PROFILE, else "default". Which file: AWS_CONFIG_FILE,
 * AWS_SHARED_CREDENTIALS_FILE, else in ~/.aws; a leading ~/ is HOME.
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
    ks_view region;
    ks_view role_arn;
    ks_view sso; /* sso_session or sso_start_url. */
    ks_view process;
};

/* Reads profile `name`. MALFORMED: line `ret_line`, counted from 1, is no section, key or comment.
 * Pure. */
KS_MUST_USE ks_err ks_profile_parse(ks_view text, enum ks_profile_file file, const char *name,
                                    struct ks_profile *ret_profile, uint32_t *ret_line);

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

/* `region` of the profile, "" if it has none or there is no file. Reads the config file, and waits
 * for it: for the start only. FULL, NO_MEMORY, INVALID, MALFORMED, DENIED, SYSTEM with a detail. */
KS_MUST_USE ks_err ks_profile_region(const char *option, char ret_region[KS_REGION_MAX + 1],
                                     struct ks_detail *detail);

#endif
