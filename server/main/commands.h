/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the subcommands that talk to a running sidecar through its local API.
 *
 * Each takes its own words and flags and all options of base/options.def: --listen, --ops-listen and
 * --token-file say where and how the sidecar is reached. argv[0] is the subcommand. They write to
 * stdout what the API answers (leases and top: tables of it), complain in one line on stderr, and
 * return the exit code: 0 done, 1 not done, 2 wrong words or options.
 */
#ifndef KS_MAIN_COMMANDS_H
#define KS_MAIN_COMMANDS_H

/* put [--data TEXT] [--partition-key KEY]: TEXT, or each line of stdin, into the local stream. */
int ks_command_put(int argc, char *const *argv, char *const *environment);
/* pull [--follow] [--max-records N] ..: some records, or all that come. */
int ks_command_pull(int argc, char *const *argv, char *const *environment);
/* ack [--batch-id ID] [--wait persisted] [ACK_ID ..]: acknowledges. */
int ks_command_ack(int argc, char *const *argv, char *const *environment);
/* health [livez|readyz|startupz]: asks a probe. */
int ks_command_health(int argc, char *const *argv, char *const *environment);
/* wait [--timeout-ms N]: until the sidecar is ready. */
int ks_command_wait(int argc, char *const *argv, char *const *environment);
/* drain: gives every lease back and stays up. */
int ks_command_drain(int argc, char *const *argv, char *const *environment);
/* leases [list] | show SHARD: a table of the leases, or all of one, for people. */
int ks_command_leases(int argc, char *const *argv, char *const *environment);
/* top [--once]: what goes on, each second; text if stdout is no terminal. */
int ks_command_top(int argc, char *const *argv, char *const *environment);
/* pause, resume [SHARD ..]; release SHARD; seek PLACE [SHARD ..]; skip SHARD [SEQUENCE[:SUB]]: an operator's orders. */
int ks_command_pause(int argc, char *const *argv, char *const *environment);
int ks_command_resume(int argc, char *const *argv, char *const *environment);
int ks_command_release(int argc, char *const *argv, char *const *environment);
int ks_command_seek(int argc, char *const *argv, char *const *environment);
int ks_command_skip(int argc, char *const *argv, char *const *environment);
/* dead-letters [list | count | show ID | redrive ID .. | discard ID ..]: the records that were given up. */
int ks_command_dead_letters(int argc, char *const *argv, char *const *environment);
/* quit: gives every lease back, and ends the sidecar then. */
int ks_command_quit(int argc, char *const *argv, char *const *environment);

#endif
