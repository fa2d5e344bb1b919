/* SPDX-License-Identifier: Apache-2.0 */
#include "main/exposure.h"

#include "base/address.h"
#include "base/bytes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

struct telling {
    void (*say)(void *arg, const char *line);
    void *arg;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct telling *telling,
                                                       const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    telling->say(telling->arg, line);
}

/* A browser is held off by the Host that it names; whoever else reaches the port may name any. */
static void look_at_doors(const struct telling *telling, const struct ks_options *options)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail ignored;
    uint32_t count;
    ks_err err = ks_address_parse_list(ks_view_text(options->listen), addresses, &count, &ignored);

    assert(ks_ok(err)); /* The options were checked. */
    for (uint32_t i = 0; i < count; i++) {
        if (addresses[i].kind == KS_ADDRESS_UNIX || ks_is_loopback(ks_view_text(addresses[i].host)))
            continue;
        tell(telling,
             "--listen %s without --token-file: whoever reaches it may read all records, "
             "acknowledge them, and drain",
             options->listen);
        return;
    }
}

static void look_at_tokens(const struct telling *telling, const struct ks_options *options)
{
    if (options->token_file[0] == '\0') {
        look_at_doors(telling, options);
        if (options->allow_host[0] != '\0')
            tell(telling,
                 "--allow-host %s without --token-file: a page of the web, in a browser that "
                 "reaches it by such a name, may take records, though not read them",
                 options->allow_host);
        return;
    }
    if (options->operator_token_file[0] == '\0')
        tell(telling, "--token-file without --operator-token-file: whoever has the apps' token may "
                      "drain, seek and quit");
}

static void look_at_file(const struct telling *telling, const char *option, const char *path)
{
    struct stat file;

    if (path == NULL || path[0] == '\0' || stat(path, &file) != 0 || !S_ISREG(file.st_mode) ||
        (file.st_mode & (S_IROTH | S_IWOTH)) == 0)
        return;
    tell(telling, "%s: every user of this host may %s %s; chmod o-rwx it", option,
         (file.st_mode & S_IWOTH) != 0 ? "write" : "read", path);
}

void ks_exposure_tell(const struct ks_options *options, void (*say)(void *arg, const char *line),
                      void *arg)
{
    const struct telling telling = {say, arg};

    look_at_tokens(&telling, options);
    look_at_file(&telling, "--token-file", options->token_file);
    look_at_file(&telling, "--operator-token-file", options->operator_token_file);
    for (uint32_t i = 0; i < ks_options_subscriptions(options); i++) {
        const struct ks_options *one = ks_options_subscription(options, i);
        look_at_file(&telling, "--source", ks_option_path(one->source));
        look_at_file(&telling, "--leases", ks_option_path(one->leases));
        look_at_file(&telling, "--dead-letters", ks_option_path(one->dead_letters));
    }
}
