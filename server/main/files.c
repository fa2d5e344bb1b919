/* SPDX-License-Identifier: Apache-2.0 */
#include "main/files.h"

#include "adapters/s3/place.h"
#include "api/guard.h"
#include "aws/credentials/imds.h"
#include "aws/profile.h"
#include "aws/proxy.h"
#include "aws/settings.h"
#include "base/budget.h"
#include "main/filter.h"
#include "main/room.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct look {
    void (*say)(void *arg, const char *line);
    void *arg;
    uint32_t problems;
};

static void tell(struct look *look, const struct ks_detail *line)
{
    look->problems++;
    look->say(look->arg, line->text);
}

static void complain(struct look *look, const char *named, const char *path, const char *why)
{
    struct ks_detail line;

    ks_detail_set(&line, "%s: %.80s: %s", named, path, why);
    tell(look, &line);
}

/* 0, or the errno of reading its first byte: opening alone does not tell of a directory. */
static int read_error(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char byte;
    int error = fd >= 0 && read(fd, &byte, 1) >= 0 ? 0 : errno;

    if (fd >= 0)
        (void)close(fd);
    return error;
}

static void look_readable(struct look *look, const char *named, const char *path)
{
    int error = read_error(path);

    if (error != 0)
        complain(look, named, path, strerror(error));
}

/* Files are made in it, found and synced. */
static void look_directory(struct look *look, const char *named, const char *directory)
{
    struct stat status;

    if (stat(directory, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (eaccess(directory, R_OK | W_OK | X_OK) == 0)
        return;
    complain(look, named, directory, strerror(errno));
}

static void look_directory_of(struct look *look, const char *named, const char *path)
{
    char directory[KS_OPTION_TEXT_SIZE];

    ks_option_directory(path, directory);
    look_directory(look, named, directory);
}

/* Of SQLite: it is made if it is not there, and has others beside it while it is used. */
static void look_database(struct look *look, const char *named, const char *path)
{
    struct stat status;

    if (path == NULL)
        return;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        complain(look, named, path, "is no file");
    else if (eaccess(path, R_OK | W_OK) == 0 || errno == ENOENT)
        look_directory_of(look, named, path);
    else
        complain(look, named, path, strerror(errno));
}

/* The sockets among the addresses of --listen or --ops-listen. */
static void look_sockets(struct look *look, const char *named, const char *list)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail detail;
    uint32_t count = 0;
    ks_err parsed = ks_address_parse_list(ks_view_text(list), addresses, &count, &detail);

    assert(ks_ok(parsed)); /* The options were checked. */
    for (uint32_t i = 0; i < count; i++)
        if (addresses[i].kind == KS_ADDRESS_UNIX)
            look_directory_of(look, named, addresses[i].path);
}

/* A named one need not be there; but what is there is read. */
static void look_profile(struct look *look, enum ks_profile_file file, const char *variable)
{
    char path[KS_PATH_MAX + 1];
    bool named = false;
    ks_err err = ks_profile_path(file, path, &named);
    int error;

    if (!named)
        return;
    if (!ks_ok(err)) {
        complain(look, variable, getenv(variable), ks_err_text(err));
        return;
    }
    error = read_error(path);
    if (error != 0 && error != ENOENT && error != ENOTDIR)
        complain(look, variable, path, strerror(error));
}

/* The endpoints that the settings lead to. Without a region the instance may know one. */
static ks_err find_endpoints(const struct ks_settings *settings, struct ks_detail *detail)
{
    struct ks_endpoint endpoint;

    for (int service = 0; service < KS_SETTINGS_SERVICES && settings->region[0] != '\0';
         service++) {
        struct ks_endpoint_rules rules =
            ks_settings_rules(settings, (enum ks_settings_service)service);

        KS_TRY(ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, &endpoint, detail));
    }
    return KS_OK;
}

/* A start asks the instance, if it may; that there is one is not known here. */
static ks_err without_region(struct look *look, struct ks_detail *line)
{
    if (ks_imds_is_disabled())
        return ks_err_because(KS_FAIL(INVALID), line,
                              "no region: set AWS_REGION, or `region` in the profile");
    look->say(look->arg,
              "no region is set: a start asks the instance for it, and fails where there is none; "
              "AWS_REGION sets it");
    return KS_OK;
}

/* What the files and variables say of AWS, as far as nobody need be asked. `in_arn`: the stream's ARN has a region. */
static void look_settings(struct look *look, bool in_arn)
{
    struct ks_detail line = {.text = "out of memory"};
    struct ks_settings *settings = ks_alloc(sizeof *settings);
    struct ks_proxies *proxies = ks_alloc(sizeof *proxies);
    ks_err err = settings == NULL || proxies == NULL ? KS_FAIL(NO_MEMORY)
                                                     : ks_settings_read(NULL, settings, &line);

    if (ks_ok(err))
        err = ks_proxies_read(proxies, &line);
    if (ks_ok(err))
        err = find_endpoints(settings, &line);
    if (ks_ok(err) && settings->region[0] == '\0' && !in_arn)
        err = without_region(look, &line);
    if (!ks_ok(err))
        tell(look, &line);
    else if (settings->ca_bundle[0] != '\0')
        look_readable(look, "the CA bundle", settings->ca_bundle);
    ks_free(proxies);
    ks_free(settings);
}

/* Which of them is needed is known when AWS is asked; none should be named in vain. */
static void look_aws(struct look *look, bool in_arn)
{
    uint32_t before = look->problems;
    static const char *const variables[] = {"AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE",
                                            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *path = getenv(variables[i]);

        if (path != NULL && path[0] != '\0')
            look_readable(look, variables[i], path);
    }
    look_profile(look, KS_PROFILE_CONFIG, "AWS_CONFIG_FILE");
    look_profile(look, KS_PROFILE_CREDENTIALS, "AWS_SHARED_CREDENTIALS_FILE");
    /* It reads the same files. */
    if (look->problems == before)
        look_settings(look, in_arn);
}

static void look_bucket(struct look *look, const char *dead_letters)
{
    struct ks_s3_place place;
    struct ks_detail why = {""};
    struct ks_detail line;

    if (!ks_option_is_bucket(dead_letters) || ks_ok(ks_s3_place_read(dead_letters, &place, &why)))
        return;
    ks_detail_set(&line, "--dead-letters: %s", why.text);
    tell(look, &line);
}

static void look_filter(struct look *look, const char *option)
{
    struct ks_pattern *filter = NULL;
    struct ks_detail detail = {"--filter: out of memory"};

    if (!ks_ok(ks_filter_load(option, &filter, &detail)))
        tell(look, &detail);
    ks_pattern_free(filter);
}

static void look_sink(struct look *look, const struct ks_options *options)
{
    struct ks_sink_target target;
    struct ks_detail detail;

    if (!ks_ok(ks_room_read_sink(options, &target, &detail)))
        tell(look, &detail);
}

uint32_t ks_files_check(const struct ks_options *options, void (*say)(void *arg, const char *line),
                        void *arg)
{
    struct look look = {.say = say, .arg = arg};
    const char *stream = ks_option_path(options->source);
    const char *leases = ks_option_path(options->leases);
    struct ks_detail detail;

    look_database(&look, "--source", stream);
    look_database(&look, "--leases", leases);
    /* By default both are where the leases are. */
    if (options->sources[KS_OPTION_dead_letters] != KS_OPTION_DEFAULT)
        look_database(&look, "--dead-letters", ks_option_path(options->dead_letters));
    if (ks_sink_is_named(options->dead_letters))
        look_sink(&look, options);
    look_bucket(&look, options->dead_letters);
    look_filter(&look, options->filter);
    if (options->sources[KS_OPTION_state_dir] != KS_OPTION_DEFAULT)
        look_directory(&look, "--state-dir", options->state_dir);
    look_sockets(&look, "--listen", options->listen);
    look_sockets(&look, "--ops-listen", options->ops_listen);
    if (options->token_file[0] != '\0' &&
        !ks_ok(ks_guard_check_token("--token-file", options->token_file, &detail)))
        tell(&look, &detail);
    if (options->operator_token_file[0] != '\0' &&
        !ks_ok(
            ks_guard_check_token("--operator-token-file", options->operator_token_file, &detail)))
        tell(&look, &detail);
    if (stream == NULL || leases == NULL || ks_sink_is_named(options->dead_letters) ||
        ks_option_is_bucket(options->dead_letters))
        look_aws(&look, strncmp(options->stream, "arn:", 4) == 0);
    return look.problems;
}
