/* SPDX-License-Identifier: Apache-2.0 */
/* The part of err.h that needs printf; apart from err.c, which the pure core links. */
#include "base/err.h"

#include "base/bytes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static void fill(struct ks_detail *detail, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void fill(struct ks_detail *detail, const char *format, va_list arguments)
{
    int size;

    if (detail == NULL)
        return;
    size = vsnprintf(detail->text, sizeof(detail->text), format, arguments);
    assert(size >= 0);
    if ((size_t)size >= sizeof(detail->text))
        detail->text[ks_view_whole_characters(ks_view_text(detail->text))] = '\0';
    for (char *at = detail->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

void ks_detail_set(struct ks_detail *detail, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fill(detail, format, arguments);
    va_end(arguments);
}

ks_err ks_err_because(ks_err err, struct ks_detail *detail, const char *format, ...)
{
    va_list arguments;

    assert(!ks_ok(err));
    va_start(arguments, format);
    fill(detail, format, arguments);
    va_end(arguments);
    return err;
}
