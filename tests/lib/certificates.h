/* SPDX-License-Identifier: Apache-2.0 */
/* certificates.h - a certificate authority of the test's own, and what TLS servers show with it.
 */
#ifndef KS_CERTIFICATES_H
#define KS_CERTIFICATES_H

#include <openssl/ssl.h>

struct authority;

/* Makes one, and writes its certificate to `pem_path`: the bundle of who trusts it. */
struct authority *authority_new(const char *pem_path);
void authority_free(struct authority *authority);

struct certificate {
    const char *names; /* "DNS:localhost,IP:127.0.0.1". */
    long from_s;       /* Valid from and to, from now; 0 and 0: an hour before and after. */
    long to_s;
    const char *pem_path; /* Where it is written; NULL: nowhere. */
};

/* The server side of TLS with such a certificate, signed by the authority; NULL: by itself. The
 * caller's: SSL_CTX_free, or whoever takes it. */
SSL_CTX *certificate_server(const struct authority *authority,
                            const struct certificate *certificate);

#endif
