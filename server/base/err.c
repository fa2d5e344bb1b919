/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <assert.h>

struct meaning {
    enum ks_err_class class;
    const char *word;
    const char *text;
};

static const struct meaning meanings[] = {{KS_CLASS_OK, "ok", "ok"},
#define X(name, word, class, text) {KS_CLASS_##class, word, text},
                                          KS_ERR_TABLE(X)
#undef X
};
enum { MEANINGS = sizeof(meanings) / sizeof(meanings[0]) };

static const struct meaning *meaning_of(ks_err err)
{
    assert(err.code < MEANINGS);

    return &meanings[err.code];
}

enum ks_err_class ks_err_class(ks_err err)
{
    return meaning_of(err)->class;
}

const char *ks_err_name(ks_err err)
{
    return meaning_of(err)->word;
}

const char *ks_err_text(ks_err err)
{
    return meaning_of(err)->text;
}
