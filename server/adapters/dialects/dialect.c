/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/dialect.h"

#include <string.h>

static const struct ks_dialect *const dialects[] = {
    &ks_native_dialect,
    &ks_kcl_dialect,
    &ks_go_kcl_dialect,
    &ks_kinsumer_dialect,
    &ks_kcl_rb_dialect,
};

const struct ks_dialect *ks_dialect_at(uint32_t index)
{
    return index < sizeof(dialects) / sizeof(dialects[0]) ? dialects[index] : NULL;
}

const struct ks_dialect *ks_dialect_find(const char *name)
{
    uint32_t at = 0;

    while (ks_dialect_at(at) != NULL && strcmp(ks_dialect_at(at)->name, name) != 0)
        at++;
    return ks_dialect_at(at);
}
