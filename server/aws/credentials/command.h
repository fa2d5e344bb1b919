/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - a program that is run for what it writes to its standard output.
 *
 * It is spawned, not forked; the loop reads its pipe and waits for its end, and both are bounded.
 * It has no standard input, a process group of its own, our environment, none of our files and none
 * of our signal settings. Its standard error goes nowhere: whatever a program that handles secrets
 * says there has no place in our log. Loop thread only.
 */
#ifndef KS_AWS_CREDENTIALS_COMMAND_H
#define KS_AWS_CREDENTIALS_COMMAND_H

#include "base/bytes.h"
#include "base/loop.h"

struct ks_command;

/* Splits a command line into words as a POSIX shell quotes them: white space separates; within '..'
 * all stands for itself; in ".." and outside a backslash takes the next character as it is (in ".."
 * only " and \). There are no variables, patterns, pipes. `room` has KS_COMMAND_MAX + 1 bytes;
 * `words`, at most KS_COMMAND_WORDS_MAX, point into it and end with NULL. INVALID: no word, a quote
 * or backslash that nothing ends, a NUL, or longer than the limits. Pure. */
KS_MUST_USE ks_err ks_command_split(ks_view line, char *room, char **words);

struct ks_command_options {
    char *const *words; /* The first is the program; without '/' it is looked for in PATH. */
    size_t output_max;
    ks_span timeout;
    /* Called once, in a later turn. KS_OK: it ended with status 0, and this is what it wrote (wiped
     * after the call). TIMEOUT and FULL: it was killed, with its group; SYSTEM: another status, or
     * a signal. A failure comes with a detail. */
    void (*done)(void *arg, ks_err err, ks_view output, const struct ks_detail *detail);
    void *arg;
};

/* Starts it. NOT_FOUND, DENIED, SYSTEM with a detail, NO_MEMORY: then nothing runs, and `done` is
 * never called. `ret_command` is good until `done` is called. */
KS_MUST_USE ks_err ks_command_run(struct ks_loop *loop, const struct ks_command_options *options,
                                  struct ks_command **ret_command, struct ks_detail *detail);
/* Kills it, with its group; `done` is not called. */
void ks_command_forget(struct ks_command *command);

#endif
