/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of the config file, with all options in it, and the forms of option texts: addresses and initial
 * positions. Options that are accepted are within what they say, and those that are not are named.
 */
#include "base/address.h"
#include "base/flat_json.h"
#include "base/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ks_err check_member(void *arg, const char *name, enum ks_flat_json_kind kind,
                           const char *value)
{
    enum ks_initial initial;
    int64_t unix_ms;

    (void)arg;
    assert(strlen(name) <= KS_FLAT_JSON_TEXT_MAX);
    assert(strlen(value) <= KS_FLAT_JSON_TEXT_MAX);
    if (kind == KS_FLAT_JSON_TEXT)
        (void)ks_option_initial_position(value, &initial, &unix_ms).code;
    return KS_OK;
}

static void read_file(ks_view content)
{
    static struct ks_options options;
    static char name[] = "ks";
    static char flag[64];
    char *const words[] = {name, flag, NULL};
    char *const none[] = {NULL};
    struct ks_detail detail = {""};
    int fd = memfd_create("config", MFD_CLOEXEC);

    if (fd < 0 || write(fd, content.data, content.size) != (ssize_t)content.size)
        abort();
    (void)snprintf(flag, sizeof(flag), "--config=/proc/self/fd/%d", fd);
    if (ks_ok(ks_options_read(2, words, none, &options, &detail))) {
        assert(options.listed_count <= KS_SUBSCRIPTIONS_MAX);
        for (uint32_t at = 0; at < ks_options_subscriptions(&options); at++)
            assert(ks_options_subscription(&options, at)->name[0] != '\0');
        ks_options_free(&options);
    } else {
        assert(detail.text[0] != '\0' && strchr(detail.text, '\n') == NULL);
    }
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail detail = {""};
    uint32_t count = 0;
    static const uint8_t nothing;
    ks_view view = ks_view_of(size == 0 ? &nothing : data, size);

    if (!ks_ok(ks_flat_json_read(view, check_member, NULL, &detail)))
        assert(detail.text[0] != '\0');
    if (ks_ok(ks_address_parse_list(view, addresses, &count, &detail)))
        assert(count > 0 && count <= KS_ADDRESSES_MAX);
    read_file(view);
    return 0;
}
