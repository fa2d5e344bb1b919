/* SPDX-License-Identifier: Apache-2.0 */
/* profiles.h - both profile files, read on the job thread, and what they say together.
 *
 * Read anew at each refresh, so that keys that somebody rotates are picked up. A file that is not
 * there says nothing.
 */
#ifndef KS_AWS_CREDENTIALS_PROFILES_H
#define KS_AWS_CREDENTIALS_PROFILES_H

#include "aws/credentials/file.h"
#include "aws/profile.h"

enum { KS_PROFILE_FILES = KS_PROFILE_CREDENTIALS + 1 };

/* Embedded in who reads; zeroed, then ks_profiles_init. */
struct ks_profiles {
    struct ks_loop *loop;
    /* Called once for each ks_profiles_read, perhaps within it: a provider answers later anyway. A
     * failure comes with a detail. */
    void (*done)(struct ks_profiles *profiles, ks_err err, const struct ks_detail *detail);
    struct ks_bytes text[KS_PROFILE_FILES]; /* They hold secrets. */

    /* Its own. */
    char path[KS_PATH_MAX + 1]; /* Of the file that is read. */
    bool path_named;
    uint32_t reading;     /* enum ks_profile_file. */
    struct ks_file *file; /* Being read, or NULL. */
};

void ks_profiles_init(struct ks_profiles *profiles, struct ks_loop *loop);
/* Begins to read. Only while it is not reading. */
void ks_profiles_read(struct ks_profiles *profiles);
/* Wipes and forgets the texts; what is under way is never told. */
void ks_profiles_drop(struct ks_profiles *profiles);

/* One profile: what each file says about it, and both together (the credentials file over the
 * config file). Nothing found if no file names it. */
struct ks_profile_found {
    struct ks_profile file[KS_PROFILE_FILES];
    struct ks_profile all;
};

/* Finds profile `name` in the two texts; views into them. MALFORMED with a detail. Pure. */
KS_MUST_USE ks_err ks_profiles_find(const ks_view text[KS_PROFILE_FILES], const char *name,
                                    struct ks_profile_found *ret_found, struct ks_detail *detail);

#endif
