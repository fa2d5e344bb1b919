/* SPDX-License-Identifier: Apache-2.0 */
/* asking.h - for the tests of providers: a loop, an HTTP client, and one question to one provider.
 */
#ifndef KS_TEST_ASKING_H
#define KS_TEST_ASKING_H

#include "aws/credentials/provider.h"
#include "aws/http.h"

struct asking {
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_provider *provider;
    /* The last answer. */
    int answers;
    ks_err err;
    struct ks_detail detail;
    struct ks_credentials credentials;
};

/* Forgets every variable that could answer, and opens loop and client. */
void asking_open(struct asking *asking);
/* Fetches, and turns until the answer is there. */
void asking_fetch(struct asking *asking);
/* Closes all of it, the provider too, and expects that no memory is left. */
void asking_close(struct asking *asking);
/* A file in the test's directory with this content; returns its path. */
const char *asking_file(const char *name, const char *content);

#endif
