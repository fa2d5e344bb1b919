/* SPDX-License-Identifier: Apache-2.0 */
/* xml_sts.c - any bytes as an answer of STS: what is found lies within, the search ends, and
 * credentials are whole or there are none.
 */
#include "aws/credentials/sts.h"
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

static void read_answer(enum ks_sts_action action, int status, ks_view body)
{
    static struct ks_provider provider;
    struct ks_http_answer answer = {.status = status, .body = body};
    struct ks_failure failure;

    provider = (struct ks_provider){.err = KS_OK};
    if (ks_ok(ks_sts_read(&provider, action, &answer, &failure))) {
        assert(provider.credentials.access_key[0] != '\0');
        assert(provider.credentials.secret_key[0] != '\0');
        assert(provider.credentials.expires);
    } else {
        assert(provider.detail.text[0] != '\0');
        assert(ks_view_is_utf8(ks_view_text(provider.detail.text)));
    }
}

static void search(ks_view document)
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
        ks_view view = document;
        for (size_t at = first; at < sizeof(names) / sizeof(names[0]); at++) {
            if (!descend(&view, names[at]))
                break;
            if (ks_ok(ks_xml_text(view, text, sizeof(text))))
                assert(memchr(text, '\0', sizeof(text)) != NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view document = ks_view_of(data, size);

    search(document);
    read_answer(KS_STS_ASSUME_ROLE, 200, document);
    read_answer(KS_STS_WEB_IDENTITY, 200, document);
    read_answer(KS_STS_ASSUME_ROLE, 400, document);
    return 0;
}
