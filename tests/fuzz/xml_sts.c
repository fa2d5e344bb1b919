/* SPDX-License-Identifier: Apache-2.0 */
/* xml_sts.c - any bytes as an answer of STS: what is found lies within, and the search ends.
 */
#include "aws/xml.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool descend(ks_view *view, const char *name)
{
    ks_view inner;

    if (!ks_ok(ks_xml_child(*view, name, &inner)))
        return false;
    assert(inner.data >= view->data);
    assert(inner.data + inner.size <= view->data + view->size);
    *view = inner;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"AssumeRoleWithWebIdentityResponse",
                                        "AssumeRoleWithWebIdentityResult",
                                        "Credentials",
                                        "AccessKeyId",
                                        "ErrorResponse",
                                        "Error",
                                        "Code"};
    char text[32];

    for (size_t first = 0; first < sizeof(names) / sizeof(names[0]); first++) {
        ks_view view = ks_view_of(data, size);
        for (size_t at = first; at < sizeof(names) / sizeof(names[0]); at++) {
            if (!descend(&view, names[at]))
                break;
            if (ks_ok(ks_xml_text(view, text, sizeof(text))))
                assert(memchr(text, '\0', sizeof(text)) != NULL);
        }
    }
    return 0;
}
