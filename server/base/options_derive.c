/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options_derive.h"

#include "base/codec.h"
#include "base/digest.h"
#include "base/options_check.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORKER_RANDOM_BYTES = 4 }; /* Told apart: processes with one host name. */

static ks_err set_default_leases(struct ks_options *options, struct ks_detail *detail)
{
    const char *path = ks_option_path(options->source);
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    int size;

    if (options->leases[0] != '\0')
        return KS_OK;
    if (path == NULL)
        size = snprintf(options->leases, KS_OPTION_TEXT_SIZE, "dynamodb");
    else if (slash == NULL)
        size = snprintf(options->leases, KS_OPTION_TEXT_SIZE, "sqlite:./leases.db");
    else
        size = snprintf(options->leases, KS_OPTION_TEXT_SIZE, "sqlite:%.*s/leases.db",
                        (int)(slash - path), path);
    if (size < KS_OPTION_TEXT_SIZE)
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "--source: the path is too long for leases.db beside it");
}

/* Where the lease file is there is room for what is this machine's alone; with a table elsewhere there may be none. */
static void set_default_state_dir(struct ks_options *options)
{
    const char *path = ks_option_path(options->leases);

    if (options->state_dir[0] == '\0' && path != NULL)
        ks_option_directory(path, options->state_dir);
}

/* Where the leases are they survive this machine, or are on it. */
static void set_default_dead_letters(struct ks_options *options)
{
    int size;

    if (options->dead_letters[0] == '\0' && strcmp(options->leases, "dynamodb") == 0)
        (void)snprintf(options->dead_letters, KS_OPTION_TEXT_SIZE, "table");
    if (options->dead_letters[0] != '\0' || options->state_dir[0] == '\0')
        return;
    size = snprintf(options->dead_letters, KS_OPTION_TEXT_SIZE, "sqlite:%s/dead_letters.db",
                    options->state_dir);
    if (size >= KS_OPTION_TEXT_SIZE)
        options->dead_letters[0] = '\0'; /* It must be named, then. */
}

/* The host name makes it readable, the rest makes it one of its kind. */
void ks_options_name_worker(struct ks_options *options)
{
    uint8_t random[WORKER_RANDOM_BYTES];
    char host[65] = "";
    char hex[2 * WORKER_RANDOM_BYTES + 1] = "";
    int size;

    if (options->worker_id[0] != '\0')
        return;
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        (void)snprintf(host, sizeof(host), "worker");
    for (char *c = host; *c != '\0'; c++)
        *c = ks_option_is_name(ks_view_of(c, 1)) ? *c : '-';
    ks_random_bytes(random, sizeof(random));
    ks_hex_encode(ks_view_of(random, sizeof(random)), hex);
    size = snprintf(options->worker_id, KS_OPTION_TEXT_SIZE, "%s-%s", host, hex);
    assert(size > 0 && size < KS_OPTION_TEXT_SIZE);
}

ks_err ks_options_derive(struct ks_options *options, struct ks_detail *detail)
{
    KS_TRY(set_default_leases(options, detail));
    set_default_state_dir(options);
    set_default_dead_letters(options);
    if (options->name[0] == '\0')
        memcpy(options->name, options->application, sizeof(options->name));
    return KS_OK;
}
