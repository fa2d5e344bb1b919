/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - what the user says about how AWS is reached: environment and profile files, as the SDKs
 * read them ("Settings reference" of the AWS SDKs guide). docs/AWS.md lists all of it.
 *
 * A variable comes before the key of the profile, the credentials file before the config file. The URL
 * of a service: AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL, endpoint_url of the service in the section
 * that `services` names, endpoint_url of the profile; none of them if
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is true. What cannot be is refused, not ignored.
 */
#ifndef KS_AWS_SETTINGS_H
#define KS_AWS_SETTINGS_H

#include "aws/endpoint.h"
#include "aws/limits.h"

enum ks_settings_service {
    KS_SETTINGS_KINESIS,
    KS_SETTINGS_DYNAMODB,
    KS_SETTINGS_STS,
    KS_SETTINGS_SQS,
    KS_SETTINGS_SNS,
    KS_SETTINGS_S3
};
enum { KS_SETTINGS_SERVICES = KS_SETTINGS_S3 + 1 };

struct ks_settings {
    char region[KS_REGION_MAX + 1]; /* "": nobody says. */
    bool fips;                      /* Also for a region like fips-us-east-1. */
    bool dualstack;
    bool ignore_urls;
    bool cbor_disabled; /* AWS_CBOR_DISABLE: only a variable, as in the SDKs. */
    enum ks_account_mode account_mode;
    uint32_t max_attempts;           /* 0: nobody says. */
    char ca_bundle[KS_PATH_MAX + 1]; /* "": nobody says. */
    struct ks_settings_url {
        char text[KS_HTTP_URL_MAX + 1]; /* "": none. */
        char source[64];                /* Who says so. */
    } urls[KS_SETTINGS_SERVICES];
};

/* Reads all of it; `profile` is the one of an option, or NULL. Waits for the files: for the start only.
 * INVALID (a value, or a line of a file), DENIED, FULL, SYSTEM, NO_MEMORY with a detail. */
KS_MUST_USE ks_err ks_settings_read(const char *profile, struct ks_settings *ret_settings,
                                    struct ks_detail *detail);

/* The rules for a service, without a stream; texts are those of the settings. */
struct ks_endpoint_rules ks_settings_rules(const struct ks_settings *settings,
                                           enum ks_settings_service service);

#endif
