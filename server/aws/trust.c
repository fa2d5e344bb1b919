/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/trust.h"

#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

/* Debian, Alpine; Fedora; OpenSUSE; OpenSSL's own. */
static const char *const BUNDLES[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};

/* A folder of certificates is no bundle. */
static bool is_readable(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode) && access(path, R_OK) == 0;
}

ks_err ks_trust_find(const char *named, const char **ret_path, struct ks_detail *detail)
{
    if (named != NULL && named[0] != '\0') {
        if (!is_readable(named))
            return ks_err_because(KS_FAIL(INVALID), detail, "the CA bundle %s cannot be read",
                                  named);
        *ret_path = named;
        return KS_OK;
    }
    for (size_t at = 0; at < sizeof(BUNDLES) / sizeof(BUNDLES[0]); at++) {
        if (is_readable(BUNDLES[at])) {
            *ret_path = BUNDLES[at];
            return KS_OK;
        }
    }
    *ret_path = BUNDLES[0];
    return KS_OK;
}
