/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - any bytes as what a sidecar answers to the subcommands for people, `leases` and `top`, whose calls and clock
 * this file is: 0xFF 0xFF is where an answer ends. They end, what they show commands no terminal, and nothing is kept.
 */
#include "base/budget.h"
#include "base/codec.h"
#include "base/loop.h"
#include "main/call.h"
#include "main/commands.h"
#include "main/lease_commands.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ks_view answers;
static uint32_t words;
static bool complained;

/* --- The clock of `top`, which would wait for a second --- */

struct ks_loop {
    ks_instant now;
};

ks_err ks_loop_new(struct ks_loop **ret_loop)
{
    static struct ks_loop loop;

    *ret_loop = &loop;
    return KS_OK;
}

void ks_loop_free(struct ks_loop *loop)
{
    (void)loop;
}

static ks_instant now;

void ks_loop_turn(struct ks_loop *loop, ks_span wait)
{
    now = ks_instant_add(now, wait);
    loop->now = now;
}

ks_instant ks_loop_now(const struct ks_loop *loop)
{
    return loop->now;
}

ks_instant ks_instant_now(void)
{
    return now;
}

ks_wall ks_wall_now(void)
{
    return (ks_wall){INT64_C(1795219200000)};
}

/* --- The calls --- */

bool ks_call_read(int argc, char *const *argv, char *const *environment,
                  const struct ks_call_flag *flags, uint32_t words_max, struct ks_call *ret_call)
{
    (void)environment;
    (void)words_max;
    *ret_call = (struct ks_call){.word_count = words};
    for (uint32_t at = 0; at < words; at++)
        ret_call->words[at] = argv[1 + at];
    for (int at = 0; flags[at].name != NULL; at++)
        ret_call->values[at] = flags[at].takes_value ? NULL : "";
    return argc > 0;
}

bool ks_call_send(const struct ks_call *call, const struct ks_call_request *request)
{
    const uint8_t *end;
    ks_view answer = answers;

    (void)call;
    assert(request->target[0] == '/' && ks_view_is_utf8(ks_view_text(request->target)));
    if (answers.size == 0) {
        complained = true;
        return false;
    }
    end = memmem(answers.data, answers.size, "\xFF\xFF", 2);
    if (end != NULL)
        answer.size = (size_t)(end - answers.data);
    answers = ks_view_of(answers.data + answer.size, answers.size - answer.size);
    if (end != NULL)
        answers = ks_view_of(answers.data + 2, answers.size - 2);
    complained = !ks_ok(request->part(request->arg, answer));
    return !complained;
}

ks_err ks_call_keep(void *arg, ks_view bytes)
{
    return ks_bytes_append(arg, bytes);
}

ks_err ks_call_print(void *arg, ks_view bytes)
{
    (void)arg;
    assert(ks_view_is_utf8(bytes));
    for (size_t at = 0; at < bytes.size; at++)
        assert((bytes.data[at] >= ' ' && bytes.data[at] != 0x7F) || bytes.data[at] == '\n');
    return KS_OK;
}

void ks_call_complain(const char *format, ...)
{
    (void)format;
    complained = true;
}

ks_err ks_call_show(ks_view text)
{
    (void)text; /* Whatever it is, ks_plain_next() makes it harmless. */
    return KS_OK;
}

/* --- With a table: not asked for here --- */

int ks_leases_with_table(const struct ks_lease_words *words_of)
{
    (void)words_of;
    abort();
}

bool ks_leases_usage(void)
{
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char leases[] = "leases", show[] = "show", id[] = "shardId-000000000000", top[] = "top";
    char *const list_argv[] = {leases, NULL};
    char *const show_argv[] = {leases, show, id, NULL};
    char *const top_argv[] = {top, NULL};
    char *const nothing[] = {NULL};

    for (int command = 0; command < 3; command++) {
        int code;

        answers = ks_view_of(data, size);
        complained = false;
        words = command == 1 ? 2 : 0;
        code = command == 0   ? ks_command_leases(1, list_argv, nothing)
               : command == 1 ? ks_command_leases(3, show_argv, nothing)
                              : ks_command_top(1, top_argv, nothing);
        assert(code == (complained ? 1 : 0));
        assert(ks_alloc_live() == 0);
    }
    return 0;
}
