/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of the config file, and the forms of option texts: addresses and initial positions. */
#include "base/address.h"
#include "base/flat_json.h"
#include "base/options.h"

#include <assert.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail detail = {""};
    uint32_t count = 0;
    ks_view view = ks_view_of(data, size);

    if (!ks_ok(ks_flat_json_read(view, check_member, NULL, &detail)))
        assert(detail.text[0] != '\0');
    if (ks_ok(ks_address_parse_list(view, addresses, &count, &detail)))
        assert(count > 0 && count <= KS_ADDRESSES_MAX);
    return 0;
}
