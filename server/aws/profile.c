/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/profile.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* --- The format --- */

static const struct key {
    const char *name;
    size_t place;
} KEYS[] = {
    {"aws_access_key_id", offsetof(struct ks_profile, access_key)},
    {"aws_secret_access_key", offsetof(struct ks_profile, secret_key)},
    {"aws_session_token", offsetof(struct ks_profile, token)},
    {"aws_security_token", offsetof(struct ks_profile, token)},
    {"aws_account_id", offsetof(struct ks_profile, account)},
    {"region", offsetof(struct ks_profile, region)},
    {"role_arn", offsetof(struct ks_profile, role_arn)},
    {"source_profile", offsetof(struct ks_profile, source_profile)},
    {"credential_source", offsetof(struct ks_profile, credential_source)},
    {"external_id", offsetof(struct ks_profile, external_id)},
    {"role_session_name", offsetof(struct ks_profile, role_session_name)},
    {"duration_seconds", offsetof(struct ks_profile, duration_seconds)},
    {"mfa_serial", offsetof(struct ks_profile, mfa_serial)},
    {"web_identity_token_file", offsetof(struct ks_profile, web_identity_token_file)},
    {"sso_session", offsetof(struct ks_profile, sso)},
    {"sso_start_url", offsetof(struct ks_profile, sso)},
    {"login_session", offsetof(struct ks_profile, login)},
    {"credential_process", offsetof(struct ks_profile, process)},
    {"ec2_metadata_service_endpoint", offsetof(struct ks_profile, ec2_endpoint)},
    {"ec2_metadata_service_endpoint_mode", offsetof(struct ks_profile, ec2_endpoint_mode)},
    {"ec2_metadata_v1_disabled", offsetof(struct ks_profile, ec2_v1_disabled)},
    {"endpoint_url", offsetof(struct ks_profile, endpoint_url)},
    {"services", offsetof(struct ks_profile, services)},
    {"ignore_configured_endpoint_urls", offsetof(struct ks_profile, ignore_urls)},
    {"use_fips_endpoint", offsetof(struct ks_profile, fips)},
    {"use_dualstack_endpoint", offsetof(struct ks_profile, dualstack)},
    {"account_id_endpoint_mode", offsetof(struct ks_profile, account_mode)},
    {"ca_bundle", offsetof(struct ks_profile, ca_bundle)},
    {"max_attempts", offsetof(struct ks_profile, max_attempts)},
    {"retry_mode", offsetof(struct ks_profile, retry_mode)},
};

struct reader {
    enum ks_profile_file file;
    const char *kind; /* Of the section that is looked for: "profile", "services". */
    ks_view name;
    bool in_section; /* Of any profile: a key may come. */
    bool in_ours;
    bool found; /* Ours. */
    bool after_key;
    size_t key_indent;
    ks_view key; /* The last one. */
    /* Takes what ours says; `parent` is the key that a deeper line belongs to, or empty. */
    void (*take)(struct reader *reader, ks_view parent, ks_view key, ks_view value);
    struct ks_profile *profile; /* Where a profile goes. */
    ks_view service;            /* Of which the URL is looked for. */
    ks_view url;
};

static ks_view unquote(ks_view text)
{
    bool quoted = text.size >= 2 && (text.data[0] == '"' || text.data[0] == '\'') &&
                  text.data[text.size - 1] == text.data[0];

    return quoted ? ks_view_of(text.data + 1, text.size - 2) : text;
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* Without what is said about it: behind a blank # and ; begin a comment. */
static ks_view cut_comment(ks_view value)
{
    for (size_t at = 1; at < value.size; at++) {
        bool marked = value.data[at] == '#' || value.data[at] == ';';

        if (marked && is_blank(value.data[at - 1]))
            value.size = at - 1;
    }
    return ks_view_trim(value);
}

/* Cuts "KEY = VALUE" or "KEY: VALUE"; false if it is none. */
static bool cut_key(ks_view line, ks_view *ret_key, ks_view *ret_value)
{
    for (size_t at = 0; at < line.size; at++) {
        if (line.data[at] != '=' && line.data[at] != ':')
            continue;
        *ret_key = ks_view_trim(ks_view_of(line.data, at));
        *ret_value = cut_comment(ks_view_of(line.data + at + 1, line.size - at - 1));
        return ret_key->size > 0;
    }
    return false;
}

/* "[profile NAME]", or "[NAME]"; "[services NAME]". */
static bool is_ours(const struct reader *reader, ks_view section)
{
    ks_view kind = ks_view_text(reader->kind);

    if (reader->file == KS_PROFILE_CREDENTIALS)
        return ks_view_equal(section, reader->name);
    if (strcmp(reader->kind, "profile") == 0 && ks_view_equal(section, KS_VIEW("default")) &&
        ks_view_equal(reader->name, KS_VIEW("default")))
        return true;
    if (!ks_view_starts(section, kind) || section.size == kind.size ||
        !is_blank(section.data[kind.size]))
        return false;
    ks_view name = ks_view_of(section.data + kind.size, section.size - kind.size);
    return ks_view_equal(unquote(ks_view_trim(name)), reader->name);
}

static ks_view *member(struct ks_profile *profile, size_t key)
{
    return (ks_view *)(void *)((char *)profile + KEYS[key].place);
}

static ks_err read_section(struct reader *reader, ks_view line)
{
    ks_view rest = ks_view_of(line.data + 1, line.size - 1);
    ks_view section = ks_view_trim(ks_view_cut(&rest, ']'));

    if (rest.data == NULL || section.size == 0)
        return KS_FAIL(MALFORMED);
    reader->in_section = true;
    reader->in_ours = is_ours(reader, section);
    reader->found = reader->found || reader->in_ours;
    reader->after_key = false;
    return KS_OK;
}

static ks_err read_key(struct reader *reader, ks_view line)
{
    ks_view key;
    ks_view value;

    /* Outside of sections nothing can stand. */
    if (!reader->in_section || !cut_key(line, &key, &value))
        return KS_FAIL(MALFORMED);
    reader->after_key = true;
    reader->key = key;
    if (reader->in_ours)
        reader->take(reader, KS_VIEW_NONE, key, value);
    return KS_OK;
}

/* A line that belongs to the key before it. It may be anything: what is no key says nothing. */
static void read_deeper(struct reader *reader, ks_view line)
{
    ks_view key;
    ks_view value;

    if (reader->in_ours && cut_key(line, &key, &value))
        reader->take(reader, reader->key, key, value);
}

static ks_err read_line(struct reader *reader, ks_view line)
{
    ks_view text = ks_view_trim(line);
    size_t indent = 0;

    if (text.size == 0 || text.data[0] == '#' || text.data[0] == ';')
        return KS_OK;
    indent = (size_t)(text.data - line.data);
    if (reader->after_key && indent > reader->key_indent) {
        read_deeper(reader, text);
        return KS_OK;
    }
    if (text.data[0] == '[')
        return read_section(reader, text);
    reader->key_indent = indent;
    return read_key(reader, text);
}

static ks_err read_text(struct reader *reader, ks_view text, uint32_t *ret_line)
{
    uint32_t line = 0;

    if (ks_view_starts(text, KS_VIEW("\xef\xbb\xbf")))
        text = ks_view_of(text.data + 3, text.size - 3);
    while (text.data != NULL) {
        line++;
        ks_err err = read_line(reader, ks_view_cut(&text, '\n'));
        if (!ks_ok(err)) {
            *ret_line = line;
            return err;
        }
    }
    return KS_OK;
}

static void take_profile(struct reader *reader, ks_view parent, ks_view key, ks_view value)
{
    for (size_t at = 0; parent.size == 0 && at < sizeof(KEYS) / sizeof(KEYS[0]); at++) {
        if (ks_view_equal_nocase(key, ks_view_text(KEYS[at].name)))
            *member(reader->profile, at) = value;
    }
}

ks_err ks_profile_parse(ks_view text, enum ks_profile_file file, const char *name,
                        struct ks_profile *ret_profile, uint32_t *ret_line)
{
    struct ks_profile profile = {.found = false};
    struct reader reader = {.file = file,
                            .kind = "profile",
                            .name = ks_view_text(name),
                            .take = take_profile,
                            .profile = &profile};

    KS_TRY(read_text(&reader, text, ret_line));
    profile.found = reader.found;
    *ret_profile = profile;
    return KS_OK;
}

void ks_profile_lay(struct ks_profile *profile, const struct ks_profile *above)
{
    struct ks_profile over = *above;

    profile->found = profile->found || over.found;
    if (over.access_key.size > 0) {
        profile->secret_key = KS_VIEW_NONE;
        profile->token = KS_VIEW_NONE;
        profile->account = KS_VIEW_NONE;
    }
    for (size_t key = 0; key < sizeof(KEYS) / sizeof(KEYS[0]); key++) {
        if (member(&over, key)->size > 0)
            *member(profile, key) = *member(&over, key);
    }
}

static void take_url(struct reader *reader, ks_view parent, ks_view key, ks_view value)
{
    if (ks_view_equal_nocase(parent, reader->service) &&
        ks_view_equal_nocase(key, KS_VIEW("endpoint_url")))
        reader->url = value;
}

ks_err ks_profile_service_url(ks_view text, ks_view services, const char *service, ks_view *ret_url,
                              uint32_t *ret_line)
{
    struct reader reader = {.file = KS_PROFILE_CONFIG,
                            .kind = "services",
                            .name = services,
                            .take = take_url,
                            .service = ks_view_text(service)};

    KS_TRY(read_text(&reader, text, ret_line));
    *ret_url = reader.url;
    return KS_OK;
}

/* --- Which --- */

ks_err ks_profile_name(const char *option, char ret_name[KS_PROFILE_NAME_MAX + 1], bool *ret_named)
{
    const char *places[] = {option, getenv("AWS_PROFILE"), getenv("AWS_DEFAULT_PROFILE"),
                            "default"};
    size_t at = 0;

    while (places[at] == NULL || places[at][0] == '\0')
        at++;
    KS_TRY(ks_view_copy_text(ks_view_text(places[at]), ret_name, KS_PROFILE_NAME_MAX + 1));
    *ret_named = at < 3;
    return KS_OK;
}

ks_err ks_profile_missing(ks_err err, bool named)
{
    bool missing = ks_err_is(err, KS_ERR_NOT_FOUND) || (ks_err_is(err, KS_ERR_DENIED) && !named);

    return missing ? KS_OK : err;
}

ks_err ks_profile_path(enum ks_profile_file file, char ret_path[KS_PATH_MAX + 1], bool *ret_named)
{
    bool config = file == KS_PROFILE_CONFIG;
    const char *set = getenv(config ? "AWS_CONFIG_FILE" : "AWS_SHARED_CREDENTIALS_FILE");
    const char *home = getenv("HOME");
    int size;

    *ret_named = set != NULL && set[0] != '\0';
    if (!*ret_named)
        set = config ? "~/.aws/config" : "~/.aws/credentials";
    if (!ks_view_starts(ks_view_text(set), KS_VIEW("~/")))
        size = snprintf(ret_path, KS_PATH_MAX + 1, "%s", set);
    else if (home != NULL && home[0] != '\0')
        size = snprintf(ret_path, KS_PATH_MAX + 1, "%s%s", home, set + 1);
    else
        return KS_FAIL(NOT_FOUND);
    return size > KS_PATH_MAX ? KS_FAIL(FULL) : KS_OK;
}
