/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - what the user may choose, from one table (base/options.def).
 *
 * A value comes from a flag, else from the environment, else from the config file, else from the table; each option
 * remembers which. All values are checked one by one and against each other before anybody sees them. Variables of the
 * environment that begin like ours and name no option are ignored; an empty variable counts as none.
 */
#ifndef KS_BASE_OPTIONS_H
#define KS_BASE_OPTIONS_H

#include <stdint.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/limits.h"

enum {
    KS_OPTION_TEXT_SIZE = 1024, /* Of a text with its NUL. */
    KS_ALLOW_HOSTS_MAX = 32,    /* Names of --allow-host. */
    KS_OPTION_WAITS_MAX = 16    /* Waits of --retry-backoff-ms. */
};

enum ks_option {
#define X(name, type, preset, min, max, words, sentence) KS_OPTION_##name,
#include "base/options.def"
#undef X
    KS_OPTIONS
};

enum ks_option_source {
    KS_OPTION_DEFAULT,
    KS_OPTION_FILE,
    KS_OPTION_ENVIRONMENT,
    KS_OPTION_FLAG,
    KS_OPTION_SUBSCRIPTION /* Its element of "subscriptions" in the config file. */
};

/* One member for each option, named as in the table: uint32_t, uint64_t, or char[KS_OPTION_TEXT_SIZE]. */
struct ks_options {
#define KS_OPTION_MEMBER_U32(name) uint32_t name;
#define KS_OPTION_MEMBER_U64(name) uint64_t name;
#define KS_OPTION_MEMBER_TEXT(name) char name[KS_OPTION_TEXT_SIZE];
#define KS_OPTION_MEMBER_ENUM(name) KS_OPTION_MEMBER_TEXT(name)
#define KS_OPTION_MEMBER_SECRET(name) KS_OPTION_MEMBER_TEXT(name)
#define X(name, type, preset, min, max, words, sentence) KS_OPTION_MEMBER_##type(name)
#include "base/options.def"
#undef X
    enum ks_option_source sources[KS_OPTIONS];
    /* The subscriptions that the config file lists, each with all options: its own, else those of the process. NULL: it
     * lists none, and these here are the one subscription's. */
    struct ks_options *listed;
    uint32_t listed_count;
};

/* Reads and checks everything. argv[0] is skipped, the rest must be flags: `--name value` or `--name=value`, each at
 * most once. `environment` ends with NULL. Nothing of it is kept. Afterwards `leases` and `worker_id` are never empty,
 * nor is the `name` of a subscription. The caller frees what is listed with ks_options_free.
 * INVALID: `detail` names the option and what is allowed, in one line; NO_MEMORY. */
KS_MUST_USE ks_err ks_options_read(int argc, char *const *argv, char *const *environment,
                                   struct ks_options *ret_options, struct ks_detail *detail);

/* The same, when the stream and the application may be missing: for subcommands that only talk to a running sidecar. */
KS_MUST_USE ks_err ks_options_read_partly(int argc, char *const *argv, char *const *environment,
                                          struct ks_options *ret_options, struct ks_detail *detail);

/* Frees the list of subscriptions. */
void ks_options_free(struct ks_options *options);

/* True if two subscriptions share a lease table, that of a KCL which reads several streams. */
bool ks_options_are_kin(const struct ks_options *a, const struct ks_options *b);
/* How many subscriptions there are, at least 1, and the options of one. */
static inline uint32_t ks_options_subscriptions(const struct ks_options *options)
{
    return options->listed_count == 0 ? 1 : options->listed_count;
}
static inline const struct ks_options *ks_options_subscription(const struct ks_options *options,
                                                               uint32_t index)
{
    return options->listed_count == 0 ? options : &options->listed[index];
}

/* Goes through an environment from `*at` on to the next variable that begins like ours, names no option, and is none of
 * those that Kubernetes makes for a service of our name (.._PORT.., .._SERVICE_..) or that clients of ours read
 * (.._URL): a slip. False: there is none. */
bool ks_options_stray(char *const **at, ks_view *ret_name);

/* An option as people see it. */
struct ks_option_view {
    const char *name;     /* "lease_duration_ms" */
    const char *sentence; /* What it is for. */
    const char *source;   /* "default" | "file" | "environment" | "flag" | "subscription" */
    bool number;          /* The value is written as a number in JSON, not as a string. */
    char flag[64];        /* "--lease-duration-ms" */
    char environment[64]; /* "KINESIS_SIDECAR_LEASE_DURATION_MS" */
    char value[KS_OPTION_TEXT_SIZE]; /* Of a secret: "***", or "" if it is not set. */
};
void ks_option_show(const struct ks_options *options, enum ks_option option,
                    struct ks_option_view *ret_view);

/* True if the option may change while the sidecar runs. */
bool ks_option_is_live(enum ks_option option);
/* Takes its value, and where that comes from, from other options. */
void ks_option_take(struct ks_options *to, const struct ks_options *from, enum ks_option option);

/* Appends the options part of --help, and a table for the docs. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_options_help(struct ks_bytes *bytes);
KS_MUST_USE ks_err ks_options_markdown(struct ks_bytes *bytes);

/* What the texts mean that have a form of their own (in base/options_check.c); all were checked when they were read. */

/* The path of "local:PATH" or "sqlite:PATH", within `text`; NULL for "kinesis" or "dynamodb". */
const char *ks_option_path(const char *text);
/* True for a place in S3, s3://BUCKET/PREFIX; adapters/s3/place.h reads it. */
bool ks_option_is_bucket(const char *text);

/* The directory of a file at `path`: "." for a name without a slash. `path` is shorter than KS_OPTION_TEXT_SIZE. */
void ks_option_directory(const char *path, char ret_directory[KS_OPTION_TEXT_SIZE]);

/* "100,200": how long to wait after the first failure, the second ..; empty: none. INVALID: a number that is none, or
 * more than an hour, or more of them than KS_OPTION_WAITS_MAX. */
KS_MUST_USE ks_err ks_option_waits(const char *text, uint32_t *ret_waits, uint32_t *ret_count);

enum ks_initial { KS_INITIAL_LATEST, KS_INITIAL_TRIM_HORIZON, KS_INITIAL_AT_TIMESTAMP };

/* `ret_unix_ms` is written for AT_TIMESTAMP only. INVALID. */
KS_MUST_USE ks_err ks_option_initial_position(const char *text, enum ks_initial *ret_initial,
                                              int64_t *ret_unix_ms);

#endif
