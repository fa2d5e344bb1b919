/* SPDX-License-Identifier: Apache-2.0 */
#include "certificates.h"

#include "ks_test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static void write_pem(const X509 *certificate, const char *path)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT(PEM_write_X509(file, certificate) == 1);
    EXPECT(fclose(file) == 0);
}

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    EXPECT(extension != NULL);
    EXPECT(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Not signed yet; `issuer` NULL: itself. */
static X509 *new_certificate(const char *name, EVP_PKEY *key, const X509 *issuer, long from_s,
                             long to_s)
{
    static long serial = 1;
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);

    EXPECT(X509_set_version(certificate, 2) == 1);
    EXPECT(ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++) == 1);
    EXPECT(X509_gmtime_adj(X509_getm_notBefore(certificate), from_s) != NULL);
    EXPECT(X509_gmtime_adj(X509_getm_notAfter(certificate), to_s) != NULL);
    EXPECT(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                      -1, 0) == 1);
    EXPECT(X509_set_issuer_name(certificate,
                                issuer == NULL ? subject : X509_get_subject_name(issuer)) == 1);
    EXPECT(X509_set_pubkey(certificate, key) == 1);
    return certificate;
}

struct authority *authority_new(const char *pem_path)
{
    static int made;
    struct authority *authority = calloc(1, sizeof(*authority));
    char name[32];

    snprintf(name, sizeof(name), "authority %d", ++made);
    authority->key = EVP_EC_gen("P-256");
    authority->certificate = new_certificate(name, authority->key, NULL, -7200, 7200);
    add_extension(authority->certificate, NID_basic_constraints, "critical,CA:TRUE");
    EXPECT(X509_sign(authority->certificate, authority->key, EVP_sha256()) > 0);
    write_pem(authority->certificate, pem_path);
    return authority;
}

void authority_free(struct authority *authority)
{
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

SSL_CTX *certificate_server(const struct authority *authority,
                            const struct certificate *certificate)
{
    bool always = certificate->from_s == 0 && certificate->to_s == 0;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *made =
        new_certificate("a server", key, authority == NULL ? NULL : authority->certificate,
                        always ? -3600 : certificate->from_s, always ? 3600 : certificate->to_s);
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

    /* A client that refuses hangs up, and OpenSSL may be writing to it. */
    signal(SIGPIPE, SIG_IGN);
    add_extension(made, NID_subject_alt_name, certificate->names);
    EXPECT(X509_sign(made, authority == NULL ? key : authority->key, EVP_sha256()) > 0);
    if (certificate->pem_path != NULL)
        write_pem(made, certificate->pem_path);
    EXPECT(SSL_CTX_use_certificate(tls, made) == 1);
    EXPECT(SSL_CTX_use_PrivateKey(tls, key) == 1);
    X509_free(made);
    EVP_PKEY_free(key);
    return tls;
}
