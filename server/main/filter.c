/* SPDX-License-Identifier: Apache-2.0 */
#include "main/filter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static ks_err compile(ks_view text, struct ks_pattern **ret, struct ks_detail *ret_detail)
{
    struct ks_detail why = {""};
    const ks_err err = ks_pattern_compile(text, ret, &why);

    if (ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY))
        return err;
    return ks_err_because(KS_FAIL(INVALID), ret_detail, "--filter: %s", why.text);
}

/* One byte more than there may be, to know that there are more. */
static ks_err read_file(FILE *file, struct ks_bytes *bytes)
{
    KS_TRY(ks_bytes_reserve(bytes, KS_PATTERN_TEXT_MAX + 1));
    bytes->size = fread(bytes->data, 1, KS_PATTERN_TEXT_MAX + 1, file);
    return ferror(file) != 0 ? KS_FAIL(SYSTEM) : KS_OK;
}

ks_err ks_filter_load(const char *option, struct ks_pattern **ret, struct ks_detail *ret_detail)
{
    struct ks_bytes bytes;
    FILE *file;
    ks_err err;

    *ret = NULL;
    if (option[0] == '\0')
        return KS_OK;
    if (option[0] == '{')
        return compile(ks_view_text(option), ret, ret_detail);
    file = fopen(option, "re");
    if (file == NULL)
        return ks_err_because(KS_FAIL(INVALID), ret_detail, "--filter: %s cannot be read: %s",
                              option, strerror(errno));
    ks_bytes_init(&bytes, KS_PATTERN_TEXT_MAX + 1);
    err = read_file(file, &bytes);
    if (ks_err_is(err, KS_ERR_SYSTEM))
        err = ks_err_because(KS_FAIL(INVALID), ret_detail, "--filter: %s cannot be read", option);
    (void)fclose(file);
    if (ks_ok(err))
        err = compile(ks_bytes_view(&bytes), ret, ret_detail);
    ks_bytes_free(&bytes);
    return err;
}
