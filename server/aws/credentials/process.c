/* SPDX-License-Identifier: Apache-2.0 */
/* credential_process: a program of the user's that writes credentials ("Sourcing credentials with
 * an external process" of the AWS CLI guide). It is run at each fetch; without Expiration that is
 * once. */
#include "aws/credentials/command.h"
#include "aws/credentials/keys_json.h"
#include "base/budget.h"

enum { TIMEOUT_MS = 60000 };

struct process {
    struct ks_provider provider; /* First: it is our address. */
    struct ks_command *command;  /* Running, or NULL. */
    char *words[KS_COMMAND_WORDS_MAX + 1];
    char room[KS_COMMAND_MAX + 1]; /* Of the words. */
};

static void on_done(void *arg, ks_err err, ks_view output, const struct ks_detail *detail)
{
    struct process *self = arg;

    self->command = NULL;
    if (ks_ok(err))
        err = ks_keys_read_process(&self->provider, output);
    else
        ks_detail_set(&self->provider.detail, "credential_process: %s", detail->text);
    ks_provider_answer(&self->provider, err);
}

static void fetch(struct ks_provider *provider)
{
    struct process *self = (struct process *)provider;
    struct ks_command_options options = {.words = self->words,
                                         .output_max = KS_CREDENTIALS_ANSWER_MAX,
                                         .timeout = ks_span_ms(TIMEOUT_MS),
                                         .done = on_done,
                                         .arg = self};
    struct ks_detail detail = {.text = ""};
    ks_err err = ks_command_run(provider->loop, &options, &self->command, &detail);

    if (ks_ok(err))
        return;
    ks_detail_set(&provider->detail, "credential_process: %s", detail.text);
    ks_provider_answer(provider, err);
}

static void close(struct ks_provider *provider)
{
    struct process *self = (struct process *)provider;

    if (self->command != NULL)
        ks_command_forget(self->command);
    ks_provider_end(provider);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"credential_process", fetch, close, NULL};

ks_err ks_provider_process_new(const struct ks_provider_setup *setup, ks_view line,
                               struct ks_provider **ret_provider)
{
    struct process *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(&self->provider, &VTABLE, setup->loop);
    ks_err err = ks_command_split(line, self->room, self->words);
    if (!ks_ok(err)) {
        close(&self->provider);
        return err;
    }
    *ret_provider = &self->provider;
    return KS_OK;
}
