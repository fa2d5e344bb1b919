/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/profile.h"

#include "aws/credentials/file.h"
#include "aws/credentials/provider.h"
#include "base/budget.h"

#include <assert.h>

struct profile_provider {
    struct ks_provider provider; /* First: it is our address. */
    char name[KS_PROFILE_NAME_MAX + 1];
    bool named;
    bool roles;
    char path[KS_PATH_MAX + 1]; /* Of the file that is read. */
    bool path_named;
    enum ks_profile_file reading;
    struct ks_file *file; /* Being read, or NULL. */

    /* What both files say together. */
    bool found;
    bool has_keys;
    bool has_role;
    bool has_other; /* SSO, a process. */
};

static void read_next(struct profile_provider *self);

/* Both files were read. */
static void decide(struct profile_provider *self)
{
    struct ks_detail *detail = &self->provider.detail;
    ks_err err = KS_FAIL(NO_CREDENTIALS);

    if (self->roles && self->has_role) {
        ks_detail_set(
            detail,
            "profile %s assumes a role (role_arn), which is not supported yet: use web identity or "
            "keys",
            self->name);
        err = KS_FAIL(UNSUPPORTED);
    } else if (self->roles) {
        err = KS_FAIL(NO_CREDENTIALS);
    } else if (self->has_keys) {
        err = KS_OK;
    } else if (self->has_other) {
        ks_detail_set(detail,
                      "profile %s uses SSO or credential_process, which are not supported yet",
                      self->name);
        err = KS_FAIL(UNSUPPORTED);
    } else if (self->named && !self->found) {
        ks_detail_set(detail, "profile %s is neither in the config nor in the credentials file",
                      self->name);
        err = KS_FAIL(INVALID);
    }
    ks_provider_answer(&self->provider, err);
}

static ks_err take(struct profile_provider *self, ks_view content)
{
    struct ks_detail *detail = &self->provider.detail;
    struct ks_profile profile;
    uint32_t line = 0;
    ks_err err = ks_profile_parse(content, self->reading, self->name, &profile, &line);

    if (!ks_ok(err)) {
        ks_detail_set(detail, "%s: line %u is neither a section nor a key", self->path, line);
        return err;
    }
    self->found = self->found || profile.found;
    self->has_role = self->has_role || profile.role_arn.size > 0;
    self->has_other = self->has_other || profile.sso.size > 0 || profile.process.size > 0;
    if (profile.access_key.size == 0)
        return KS_OK;
    if (!ks_ok(ks_provider_set(&self->provider, profile.access_key, profile.secret_key,
                               profile.token))) {
        ks_detail_set(detail, "%s: the keys of profile %s are incomplete or malformed", self->path,
                      self->name);
        return KS_FAIL(INVALID);
    }
    self->has_keys = true;
    return KS_OK;
}

static void on_read(void *arg, ks_err err, ks_view content)
{
    struct profile_provider *self = arg;

    self->file = NULL;
    if (ks_ok(err)) {
        err = take(self, content);
    } else {
        err = ks_profile_missing(err, self->path_named);
        ks_detail_set(&self->provider.detail, "%s cannot be read: %s", self->path,
                      ks_err_text(err));
    }
    if (!ks_ok(err)) {
        ks_provider_answer(&self->provider, err);
        return;
    }
    if (self->reading == KS_PROFILE_CREDENTIALS) {
        decide(self);
        return;
    }
    self->reading = KS_PROFILE_CREDENTIALS;
    read_next(self);
}

/* The credentials file comes last, so that its keys win. */
static void read_next(struct profile_provider *self)
{
    ks_err err = ks_profile_path(self->reading, self->path, &self->path_named);

    if (ks_err_is(err, KS_ERR_NOT_FOUND)) {
        decide(self); /* No HOME, no files. */
        return;
    }
    if (ks_ok(err))
        err = ks_file_read(self->provider.loop, self->path, KS_PROFILE_FILE_MAX, on_read, self,
                           &self->file);
    if (!ks_ok(err)) {
        ks_detail_set(&self->provider.detail,
                      "the AWS config or credentials file cannot be read: %s", ks_err_text(err));
        ks_provider_answer(&self->provider, err);
    }
}

static void fetch(struct ks_provider *provider)
{
    struct profile_provider *self = (struct profile_provider *)provider;

    self->found = false;
    self->has_keys = false;
    self->has_role = false;
    self->has_other = false;
    self->reading = KS_PROFILE_CONFIG;
    read_next(self);
}

static void close(struct ks_provider *provider)
{
    struct profile_provider *self = (struct profile_provider *)provider;

    if (self->file != NULL)
        ks_file_forget(self->file);
    ks_provider_end(provider);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"the profile", fetch, close};

ks_err ks_provider_profile_new(struct ks_loop *loop, const char *name, bool named, bool roles,
                               struct ks_provider **ret_provider)
{
    struct profile_provider *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(&self->provider, &VTABLE, loop);
    assert(strlen(name) < sizeof(self->name));
    memcpy(self->name, name, strlen(name) + 1);
    self->named = named;
    self->roles = roles;
    *ret_provider = &self->provider;
    return KS_OK;
}
