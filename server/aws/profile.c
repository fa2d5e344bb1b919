/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/profile.h"

#include "aws/credentials/file.h"
#include "base/budget.h"

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
    {"region", offsetof(struct ks_profile, region)},
    {"role_arn", offsetof(struct ks_profile, role_arn)},
    {"sso_session", offsetof(struct ks_profile, sso)},
    {"sso_start_url", offsetof(struct ks_profile, sso)},
    {"credential_process", offsetof(struct ks_profile, process)},
};

struct reader {
    enum ks_profile_file file;
    ks_view name;
    bool in_section; /* Of any profile: a key may come. */
    bool in_profile; /* Of ours. */
    bool after_key;
    size_t key_indent;
    struct ks_profile *profile;
};

static ks_view unquote(ks_view text)
{
    bool quoted = text.size >= 2 && (text.data[0] == '"' || text.data[0] == '\'') &&
                  text.data[text.size - 1] == text.data[0];

    return quoted ? ks_view_of(text.data + 1, text.size - 2) : text;
}

/* "[profile NAME]", or "[NAME]". */
static bool is_ours(const struct reader *reader, ks_view section)
{
    ks_view rest = section;

    if (reader->file == KS_PROFILE_CREDENTIALS)
        return ks_view_equal(section, reader->name);
    if (ks_view_equal(section, KS_VIEW("default")) &&
        ks_view_equal(reader->name, KS_VIEW("default")))
        return true;
    ks_view word = ks_view_cut(&rest, ' ');
    return rest.data != NULL && ks_view_equal(word, KS_VIEW("profile")) &&
           ks_view_equal(unquote(ks_view_trim(rest)), reader->name);
}

static ks_err read_section(struct reader *reader, ks_view line)
{
    ks_view rest = ks_view_of(line.data + 1, line.size - 1);
    ks_view section = ks_view_trim(ks_view_cut(&rest, ']'));

    if (rest.data == NULL || section.size == 0)
        return KS_FAIL(MALFORMED);
    reader->in_section = true;
    reader->in_profile = is_ours(reader, section);
    reader->profile->found = reader->profile->found || reader->in_profile;
    reader->after_key = false;
    return KS_OK;
}

static ks_err read_key(struct reader *reader, ks_view line)
{
    ks_view rest = line;
    ks_view name = ks_view_trim(ks_view_cut(&rest, '='));

    /* Outside of sections nothing can stand. */
    if (rest.data == NULL || name.size == 0 || !reader->in_section)
        return KS_FAIL(MALFORMED);
    reader->after_key = true;
    for (size_t at = 0; reader->in_profile && at < sizeof(KEYS) / sizeof(KEYS[0]); at++) {
        if (ks_view_equal_nocase(name, ks_view_text(KEYS[at].name)))
            *(ks_view *)(void *)((char *)reader->profile + KEYS[at].place) = ks_view_trim(rest);
    }
    return KS_OK;
}

static ks_err read_line(struct reader *reader, ks_view line)
{
    ks_view text = ks_view_trim(line);
    size_t indent = 0;

    if (text.size == 0 || text.data[0] == '#' || text.data[0] == ';')
        return KS_OK;
    indent = (size_t)(text.data - line.data);
    if (reader->after_key && indent > reader->key_indent)
        return KS_OK;
    if (text.data[0] == '[')
        return read_section(reader, text);
    reader->key_indent = indent;
    return read_key(reader, text);
}

ks_err ks_profile_parse(ks_view text, enum ks_profile_file file, const char *name,
                        struct ks_profile *ret_profile, uint32_t *ret_line)
{
    struct ks_profile profile = {.found = false};
    struct reader reader = {.file = file, .name = ks_view_text(name), .profile = &profile};
    uint32_t line = 0;

    if (ks_view_starts(text, KS_VIEW("\xef\xbb\xbf")))
        text = ks_view_of(text.data + 3, text.size - 3);
    while (text.data != NULL) {
        line++;
        ks_err err = read_line(&reader, ks_view_cut(&text, '\n'));
        if (!ks_ok(err)) {
            *ret_line = line;
            return err;
        }
    }
    *ret_profile = profile;
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

static ks_err region_in(ks_view text, const char *path, const char *option,
                        char ret_region[KS_REGION_MAX + 1], struct ks_detail *detail)
{
    char name[KS_PROFILE_NAME_MAX + 1];
    struct ks_profile profile;
    uint32_t line = 0;
    bool named = false;

    KS_TRY(ks_profile_name(option, name, &named));
    ks_err err = ks_profile_parse(text, KS_PROFILE_CONFIG, name, &profile, &line);
    if (!ks_ok(err)) {
        ks_detail_set(detail, "%s: line %u is neither a section nor a key", path, line);
        return err;
    }
    err = ks_view_copy_text(profile.region, ret_region, KS_REGION_MAX + 1);
    if (!ks_ok(err)) {
        ks_detail_set(detail, "%s: the region of profile %s is no region", path, name);
        return KS_FAIL(INVALID);
    }
    return KS_OK;
}

ks_err ks_profile_region(const char *option, char ret_region[KS_REGION_MAX + 1],
                         struct ks_detail *detail)
{
    char path[KS_PATH_MAX + 1];
    size_t size = 0;
    bool named = false;

    ret_region[0] = '\0';
    if (!ks_ok(ks_profile_path(KS_PROFILE_CONFIG, path, &named)))
        return KS_OK;
    uint8_t *content = ks_alloc(KS_PROFILE_FILE_MAX + 1);
    if (content == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_err err = ks_file_read_now(path, content, KS_PROFILE_FILE_MAX + 1, &size);
    if (!ks_ok(err)) {
        ks_detail_set(detail, "%s cannot be read: %s", path, ks_err_text(err));
        err = ks_profile_missing(err, named);
    } else {
        err = region_in(ks_view_of(content, size), path, option, ret_region, detail);
    }
    ks_free(content);
    return err;
}
