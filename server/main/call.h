/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - what the subcommands share: reading their words and flags, and one call to the API. */
#ifndef KS_MAIN_CALL_H
#define KS_MAIN_CALL_H

#include "base/options.h"
#include "main/client.h"

enum {
    KS_CALL_FLAGS_MAX = 20,
    KS_CALL_WORDS_MAX = 1000 /* Words on one command line: ids to acknowledge. */
};

/* A flag of a subcommand. The list ends with a name of NULL. */
struct ks_call_flag {
    const char *name; /* "--follow" */
    bool takes_value;
};

struct ks_call {
    struct ks_options options;
    const char *values[KS_CALL_FLAGS_MAX]; /* By flag; NULL: not given; "" for one without value. */
    const char *words[KS_CALL_WORDS_MAX];  /* What is no flag. */
    uint32_t word_count;
};

/* Reads argv[1] .. against `flags` and the options. False: it complained; exit 2. */
bool ks_call_read(int argc, char *const *argv, char *const *environment,
                  const struct ks_call_flag *flags, uint32_t words_max, struct ks_call *ret_call);

/* Reads flags and the options of `run`, of all subscriptions; words are refused. The caller frees them with
 * ks_options_free(&call->options). False: it complained; exit 2. */
bool ks_call_read_whole(int argc, char *const *argv, char *const *environment,
                        const struct ks_call_flag *flags, struct ks_call *ret_call);

/* One call; an answer of 2xx goes to `part` (NULL: it is shown), others to stderr. `ops`: to the ops port. Returns
 * true for 2xx and a whole body; otherwise it complained. */
struct ks_call_request {
    bool ops;
    const char *method;
    const char *target;
    const char *accept;
    ks_view body;
    ks_span timeout;
    ks_err (*part)(void *arg, ks_view bytes);
    void *arg;
};
bool ks_call_send(const struct ks_call *call, const struct ks_call_request *request);

/* Writes to stdout, as they are, words of our own and what was made plain; a `part`. SYSTEM. */
ks_err ks_call_print(void *arg, ks_view bytes);
/* Writes to stdout what the sidecar said; to a terminal as base/plain.h has it, but for line feeds. SYSTEM. */
KS_MUST_USE ks_err ks_call_show(ks_view text);
/* A `part` that keeps; `arg` is a struct ks_bytes. */
ks_err ks_call_keep(void *arg, ks_view bytes);

/* One line on stderr; what is in it of others as base/plain.h has it, but for line feeds. */
void ks_call_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
