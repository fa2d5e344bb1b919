/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/settings.h"

#include "aws/credentials/file.h"
#include "aws/profile.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILES = KS_PROFILE_CREDENTIALS + 1, ATTEMPTS_MAX = 100 };

static const struct service {
    const char *name;
    const char *variable;
} SERVICES[KS_SETTINGS_SERVICES] = {
    [KS_SETTINGS_KINESIS] = {"kinesis", "AWS_ENDPOINT_URL_KINESIS"},
    [KS_SETTINGS_DYNAMODB] = {"dynamodb", "AWS_ENDPOINT_URL_DYNAMODB"},
    [KS_SETTINGS_STS] = {"sts", "AWS_ENDPOINT_URL_STS"},
    [KS_SETTINGS_SQS] = {"sqs", "AWS_ENDPOINT_URL_SQS"},
    [KS_SETTINGS_SNS] = {"sns", "AWS_ENDPOINT_URL_SNS"},
    [KS_SETTINGS_S3] = {"s3", "AWS_ENDPOINT_URL_S3"},
};

/* Both files, and what they say about the profile. */
struct reading {
    uint8_t *content[FILES];
    ks_view text[FILES];
    char path[FILES][KS_PATH_MAX + 1];
    struct ks_profile profile[FILES];
    struct ks_settings *settings;
    struct ks_detail *detail;
};

/* --- The files --- */

static ks_err malformed(const struct reading *reading, int file, uint32_t line)
{
    return ks_err_because(KS_FAIL(INVALID), reading->detail,
                          "%s: line %u is neither a section nor a key", reading->path[file], line);
}

static ks_err read_file(struct reading *reading, int file, const char *profile)
{
    bool named = false;
    size_t size = 0;
    uint32_t line = 0;

    if (!ks_ok(ks_profile_path((enum ks_profile_file)file, reading->path[file], &named)))
        return KS_OK;
    reading->content[file] = ks_alloc(KS_PROFILE_FILE_MAX + 1);
    if (reading->content[file] == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_err err = ks_file_read_now(reading->path[file], reading->content[file],
                                  KS_PROFILE_FILE_MAX + 1, &size);
    if (!ks_ok(err)) {
        ks_detail_set(reading->detail, "%s cannot be read: %s", reading->path[file],
                      ks_err_text(err));
        return ks_profile_missing(err, named);
    }
    reading->text[file] = ks_view_of(reading->content[file], size);
    err = ks_profile_parse(reading->text[file], (enum ks_profile_file)file, profile,
                           &reading->profile[file], &line);
    return ks_ok(err) ? KS_OK : malformed(reading, file, line);
}

/* They hold secrets. */
static void drop_files(struct reading *reading)
{
    for (int file = 0; file < FILES; file++) {
        if (reading->content[file] != NULL)
            explicit_bzero(reading->content[file], KS_PROFILE_FILE_MAX + 1);
        ks_free(reading->content[file]);
    }
}

/* --- Where a value comes from --- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* What the files say; the credentials file goes before the config file. */
static ks_view key(const struct reading *reading, size_t place)
{
    ks_view value = KS_VIEW_NONE;

    for (int file = 0; file < FILES; file++) {
        const char *profile = (const char *)&reading->profile[file];
        ks_view said = *(const ks_view *)(const void *)(profile + place);
        if (said.size > 0)
            value = said;
    }
    return value;
}

/* --- The table --- */

enum kind { BOOLEAN, COUNT, WORD, PATH };

/* The words of an enum in its order. */
static const char *const ACCOUNT_MODES[] = {
    [KS_ACCOUNT_PREFERRED] = "preferred",
    [KS_ACCOUNT_DISABLED] = "disabled",
    [KS_ACCOUNT_REQUIRED] = "required",
};

static const struct setting {
    const char *variable;
    const char *key; /* NULL: the profile has none. */
    size_t in_profile;
    enum kind kind;
    size_t place; /* In the settings. */
} SETTINGS[] = {
    {"AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint", offsetof(struct ks_profile, fips), BOOLEAN,
     offsetof(struct ks_settings, fips)},
    {"AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint", offsetof(struct ks_profile, dualstack),
     BOOLEAN, offsetof(struct ks_settings, dualstack)},
    {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls",
     offsetof(struct ks_profile, ignore_urls), BOOLEAN, offsetof(struct ks_settings, ignore_urls)},
    {"AWS_ACCOUNT_ID_ENDPOINT_MODE", "account_id_endpoint_mode",
     offsetof(struct ks_profile, account_mode), WORD, offsetof(struct ks_settings, account_mode)},
    {"AWS_MAX_ATTEMPTS", "max_attempts", offsetof(struct ks_profile, max_attempts), COUNT,
     offsetof(struct ks_settings, max_attempts)},
    {"AWS_CBOR_DISABLE", NULL, 0, BOOLEAN, offsetof(struct ks_settings, cbor_disabled)},
    {"AWS_CA_BUNDLE", "ca_bundle", offsetof(struct ks_profile, ca_bundle), PATH,
     offsetof(struct ks_settings, ca_bundle)},
};

static bool read_boolean(ks_view value, bool *ret_boolean)
{
    *ret_boolean = ks_view_equal_nocase(value, KS_VIEW("true"));
    return *ret_boolean || ks_view_equal_nocase(value, KS_VIEW("false"));
}

static bool read_count(ks_view value, uint32_t *ret_count)
{
    uint64_t count = 0;

    if (!ks_ok(ks_view_u64(value, &count)) || count == 0 || count > ATTEMPTS_MAX)
        return false;
    *ret_count = (uint32_t)count;
    return true;
}

static bool read_mode(ks_view value, enum ks_account_mode *ret_mode)
{
    for (size_t at = 0; at < sizeof(ACCOUNT_MODES) / sizeof(ACCOUNT_MODES[0]); at++) {
        if (!ks_view_equal_nocase(value, ks_view_text(ACCOUNT_MODES[at])))
            continue;
        *ret_mode = (enum ks_account_mode)at;
        return true;
    }
    return false;
}

/* What is allowed, for people. */
static const char *words_of(enum kind kind)
{
    switch (kind) {
    case BOOLEAN: return "true or false";
    case COUNT: return "a number from 1 to 100";
    case WORD: return "preferred, disabled or required";
    case PATH: return "a path";
    }
    assert(false);
    return NULL;
}

static bool take(const struct setting *setting, ks_view value, struct ks_settings *settings)
{
    void *place = (char *)settings + setting->place;

    switch (setting->kind) {
    case BOOLEAN: return read_boolean(value, place);
    case COUNT: return read_count(value, place);
    case WORD: return read_mode(value, place);
    case PATH: return ks_ok(ks_view_copy_text(value, place, KS_PATH_MAX + 1));
    }
    assert(false);
    return false;
}

static ks_err read_setting(struct reading *reading, const struct setting *setting)
{
    const char *name = setting->variable;
    const char *set = variable(name);
    ks_view value = KS_VIEW_NONE;

    if (set != NULL)
        value = ks_view_text(set);
    else if (setting->key != NULL)
        value = key(reading, setting->in_profile);
    if (set == NULL)
        name = setting->key;
    if (value.size == 0 || take(setting, value, reading->settings))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), reading->detail, "%s is not %s: '%.*s'", name,
                          words_of(setting->kind), (int)value.size, (const char *)value.data);
}

/* --- What is more than a value --- */

/* A region like fips-us-east-1 or us-east-1-fips is a way to say two things at once. */
static ks_view cut_fips(ks_view region, bool *ret_fips)
{
    const size_t size = sizeof("fips-") - 1;
    bool cut = true;

    if (ks_view_starts(region, KS_VIEW("fips-")))
        region = ks_view_of(region.data + size, region.size - size);
    else if (region.size > size && memcmp(region.data + region.size - size, "-fips", size) == 0)
        region.size -= size;
    else
        cut = false;
    *ret_fips = *ret_fips || cut;
    return region;
}

static ks_err read_region(struct reading *reading)
{
    static const char *const VARIABLES[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
    const char *name = "the region of the profile";
    ks_view said = KS_VIEW_NONE;

    for (size_t at = 0; at < 2 && said.size == 0; at++) {
        if (variable(VARIABLES[at]) != NULL)
            said = ks_view_text(variable(name = VARIABLES[at]));
    }
    if (said.size == 0)
        said = key(reading, offsetof(struct ks_profile, region));
    if (said.size == 0)
        return KS_OK;

    ks_view region = cut_fips(said, &reading->settings->fips);
    if (!ks_region_is_valid(region))
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "%s is no region: '%.*s' (one looks like eu-west-1)", name,
                              (int)said.size, (const char *)said.data);
    return ks_view_copy_text(region, reading->settings->region, KS_REGION_MAX + 1);
}

/* The standard mode is the only one here; that is no reason not to start, and one to say so. */
static ks_err read_retry_mode(struct reading *reading)
{
    const char *set = variable("AWS_RETRY_MODE");
    ks_view mode =
        set != NULL ? ks_view_text(set) : key(reading, offsetof(struct ks_profile, retry_mode));

    if (mode.size == 0 || ks_view_equal_nocase(mode, KS_VIEW("standard")))
        return KS_OK;
    if (!ks_view_equal_nocase(mode, KS_VIEW("adaptive")) &&
        !ks_view_equal_nocase(mode, KS_VIEW("legacy")))
        return ks_err_because(
            KS_FAIL(INVALID), reading->detail, "%s is not standard, adaptive or legacy: '%.*s'",
            set != NULL ? "AWS_RETRY_MODE" : "retry_mode", (int)mode.size, (const char *)mode.data);
    ks_warn("aws: %s is %.*s, which means standard here",
            set != NULL ? "AWS_RETRY_MODE" : "retry_mode", (int)mode.size, (const char *)mode.data);
    return KS_OK;
}

static ks_err section_url(struct reading *reading, const char *service, ks_view *ret_url)
{
    ks_view services = key(reading, offsetof(struct ks_profile, services));
    uint32_t line = 0;

    *ret_url = KS_VIEW_NONE;
    if (services.size == 0)
        return KS_OK;
    ks_err err =
        ks_profile_service_url(reading->text[KS_PROFILE_CONFIG], services, service, ret_url, &line);
    return ks_ok(err) ? KS_OK : malformed(reading, KS_PROFILE_CONFIG, line);
}

static ks_err read_url(struct reading *reading, enum ks_settings_service service)
{
    const struct service *asked = &SERVICES[service];
    struct ks_settings_url *url = &reading->settings->urls[service];
    const char *const names[] = {asked->variable, "AWS_ENDPOINT_URL"};
    ks_view value = KS_VIEW_NONE;

    for (size_t at = 0; at < 2 && value.size == 0; at++) {
        if (variable(names[at]) == NULL)
            continue;
        value = ks_view_text(variable(names[at]));
        snprintf(url->source, sizeof(url->source), "%s", names[at]);
    }
    if (value.size == 0) {
        KS_TRY(section_url(reading, asked->name, &value));
        snprintf(url->source, sizeof(url->source), "endpoint_url of %s in the services section",
                 asked->name);
    }
    if (value.size == 0) {
        value = key(reading, offsetof(struct ks_profile, endpoint_url));
        snprintf(url->source, sizeof(url->source), "endpoint_url of the profile");
    }
    if (ks_ok(ks_view_copy_text(value, url->text, sizeof(url->text))))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), reading->detail, "%s is no URL", url->source);
}

/* --- All --- */

static ks_err read_all(struct reading *reading, const char *option)
{
    char name[KS_PROFILE_NAME_MAX + 1];
    bool named = false;

    if (!ks_ok(ks_profile_name(option, name, &named)))
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "the name of the profile is longer than %d characters",
                              KS_PROFILE_NAME_MAX);
    for (int file = 0; file < FILES; file++)
        KS_TRY(read_file(reading, file, name));
    for (size_t at = 0; at < sizeof(SETTINGS) / sizeof(SETTINGS[0]); at++)
        KS_TRY(read_setting(reading, &SETTINGS[at]));
    KS_TRY(read_region(reading));
    KS_TRY(read_retry_mode(reading));
    for (int at = 0; at < KS_SETTINGS_SERVICES && !reading->settings->ignore_urls; at++)
        KS_TRY(read_url(reading, (enum ks_settings_service)at));
    return KS_OK;
}

ks_err ks_settings_read(const char *profile, struct ks_settings *ret_settings,
                        struct ks_detail *detail)
{
    struct reading *reading = ks_alloc(sizeof(*reading));

    if (reading == NULL)
        return KS_FAIL(NO_MEMORY);
    *ret_settings = (struct ks_settings){.region = ""};
    reading->settings = ret_settings;
    reading->detail = detail;
    ks_err err = read_all(reading, profile);
    drop_files(reading);
    ks_free(reading);
    return err;
}

struct ks_endpoint_rules ks_settings_rules(const struct ks_settings *settings,
                                           enum ks_settings_service service)
{
    return (struct ks_endpoint_rules){
        .service = SERVICES[service].name,
        .region = settings->region,
        .url = settings->urls[service].text,
        .url_source = settings->urls[service].source,
        .fips = settings->fips,
        .dualstack = settings->dualstack,
        .account_mode = settings->account_mode,
    };
}
