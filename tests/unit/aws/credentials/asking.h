/* SPDX-License-Identifier: Apache-2.0 */
/* asking.h - for the tests of providers: a loop, an HTTP client, and one question to one provider.
 */
#ifndef KS_TEST_ASKING_H
#define KS_TEST_ASKING_H

#include "aws/credentials/provider.h"
#include "aws/http.h"
#include "base/prng.h"

/* An answer of STS to `action` with the access key `name`, by the clock of ASKING_DATE good until
 * `end` ("01:00:00") of that day. */
#define ASKING_STS(action, name, end)                                                              \
    "<" action "Response><" action "Result><Credentials><AccessKeyId>" name "</AccessKeyId>"       \
    "<SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>"                           \
    "<Expiration>2026-01-01T" end "Z</Expiration></Credentials></" action "Result></" action       \
    "Response>"
#define ASKING_DATE "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"

struct asking {
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_provider_setup
        setup; /* Of profile "default", which nobody named; region eu-west-1. */
    struct ks_endpoint_rules sts;
    struct ks_prng prng; /* Seed 1. */
    struct ks_provider *provider;
    /* The last answer. */
    int answers;
    ks_err err;
    struct ks_detail detail;
    struct ks_credentials credentials;
};

/* Forgets every variable that could answer, and opens loop and client. */
void asking_open(struct asking *asking);
/* Forgets every variable that could answer. */
void asking_forget_environment(void);
/* STS is at this URL from now on; region eu-west-1. */
void asking_sts(struct asking *asking, const char *url);
/* Begins to fetch. */
void asking_begin(struct asking *asking);
/* Fetches, and turns until the answer is there. */
void asking_fetch(struct asking *asking);
/* Closes all of it, the provider too, and expects that no memory is left. */
void asking_close(struct asking *asking);
/* The config and the credentials file, for whoever reads profiles. */
void asking_set_files(const char *config, const char *credentials);
/* A file in the test's directory with this content; returns its path. */
const char *asking_file(const char *name, const char *content);

#endif
