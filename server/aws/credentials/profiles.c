/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/profiles.h"

static void read_next(struct ks_profiles *profiles);

static void finish(struct ks_profiles *profiles, ks_err err)
{
    struct ks_detail detail = {.text = ""};

    if (!ks_ok(err))
        ks_detail_set(&detail, "%s cannot be read: %s", profiles->path, ks_err_text(err));
    profiles->done(profiles, err, &detail);
}

static void on_read(void *arg, ks_err err, ks_view content)
{
    struct ks_profiles *profiles = arg;

    profiles->file = NULL;
    err = ks_ok(err) ? ks_bytes_append(&profiles->text[profiles->reading], content)
                     : ks_profile_missing(err, profiles->path_named);
    if (!ks_ok(err)) {
        finish(profiles, err);
        return;
    }
    profiles->reading++;
    read_next(profiles);
}

static ks_err begin(struct ks_profiles *profiles)
{
    KS_TRY(ks_profile_path((enum ks_profile_file)profiles->reading, profiles->path,
                           &profiles->path_named));
    return ks_file_read(profiles->loop, profiles->path, KS_PROFILE_FILE_MAX, on_read, profiles,
                        &profiles->file);
}

static void read_next(struct ks_profiles *profiles)
{
    for (; profiles->reading < KS_PROFILE_FILES; profiles->reading++) {
        ks_err err = begin(profiles);

        if (ks_ok(err))
            return;
        /* Without a HOME there are only the files that variables name. */
        if (!ks_err_is(err, KS_ERR_NOT_FOUND)) {
            finish(profiles, err);
            return;
        }
    }
    finish(profiles, KS_OK);
}

void ks_profiles_init(struct ks_profiles *profiles, struct ks_loop *loop)
{
    profiles->loop = loop;
    for (size_t at = 0; at < KS_PROFILE_FILES; at++) {
        ks_bytes_init(&profiles->text[at], KS_PROFILE_FILE_MAX);
        profiles->text[at].secret = true;
    }
}

void ks_profiles_read(struct ks_profiles *profiles)
{
    ks_profiles_drop(profiles);
    profiles->reading = KS_PROFILE_CONFIG;
    read_next(profiles);
}

void ks_profiles_drop(struct ks_profiles *profiles)
{
    if (profiles->file != NULL)
        ks_file_forget(profiles->file);
    profiles->file = NULL;
    for (size_t at = 0; at < KS_PROFILE_FILES; at++) {
        ks_bytes_free(&profiles->text[at]);
    }
}

ks_err ks_profiles_find(const ks_view text[KS_PROFILE_FILES], const char *name,
                        struct ks_profile_found *ret_found, struct ks_detail *detail)
{
    static const char *const FILES[] = {
        [KS_PROFILE_CONFIG] = "config", [KS_PROFILE_CREDENTIALS] = "credentials"};
    struct ks_profile_found found = {.all = {.found = false}};

    for (size_t at = 0; at < KS_PROFILE_FILES; at++) {
        uint32_t line = 0;

        if (!ks_ok(
                ks_profile_parse(text[at], (enum ks_profile_file)at, name, &found.file[at], &line)))
            return ks_err_because(KS_FAIL(MALFORMED), detail,
                                  "the AWS %s file: line %u is neither a section nor a key",
                                  FILES[at], line);
        ks_profile_lay(&found.all, &found.file[at]);
    }
    *ret_found = found;
    return KS_OK;
}
