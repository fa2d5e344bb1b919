/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar.h - a whole sidecar in a process of its own, for tests: what `kinesis-sidecar run` does, on a local stream
 * and Unix sockets in the test's folder.
 */
#ifndef KS_TEST_SIDECAR_H
#define KS_TEST_SIDECAR_H

#include <stddef.h>
#include <sys/types.h>

enum { SIDECAR_WORDS_MAX = 32, SIDECAR_LEAKS = 98 };

/* A command line: "run" or another subcommand, the sockets, then up to 20 of `words`. argv ends with NULL. */
struct sidecar_line {
    char *argv[SIDECAR_WORDS_MAX];
    int argc;
    char listen[200];
    char ops_listen[200];
};
/* `words` end with NULL and may name another --ops-listen. `runs`: with stream and application, too. */
void sidecar_line(struct sidecar_line *line, const char *command, int runs,
                  const char *const *words);

/* Starts it with these words more; `environment` (NULL: nothing) ends with NULL. */
pid_t sidecar_start(const char *const *words, char *const *environment);
/* Waits until it is ready. */
void sidecar_wait_ready(void);
/* Waits for its end, at most 30 s, and gives its exit code; 100 + number for a signal, SIDECAR_LEAKS
 * if it did not free what it had. */
int sidecar_end(pid_t pid);

/* Instead of one: gives `answer`, head and all, to each of the next `times` requests, and ends. */
pid_t sidecar_pretend(const struct sidecar_line *line, const char *answer, size_t size, int times);

typedef int sidecar_command(int argc, char *const *argv, char *const *environment);
/* Runs a subcommand in a process of its own; its stdout goes to `ret_output` (NULL: nowhere), `input` to its stdin. The
 * exit code. */
int sidecar_call(sidecar_command *command, const char *const *words, const char *input,
                 char *ret_output, size_t output_size);

/* Runs it again and again until it succeeds and says `part`, at most 30 s. */
void sidecar_call_until(sidecar_command *command, const char *const *words, const char *part,
                        char *ret_output, size_t output_size);

#endif
