/* SPDX-License-Identifier: Apache-2.0 */
/* aws_commands.h - the subcommands that say what must be in AWS: iam-policy and table-schema.
 *
 * Both take the options of `run` and ask nobody. Exit status: 0, the text is on stdout; 1, these options use nothing of
 * that kind; 2, an option is wrong.
 */
#ifndef KS_MAIN_AWS_COMMANDS_H
#define KS_MAIN_AWS_COMMANDS_H

/* Prints the least IAM policy with which the options work, as JSON. */
int ks_command_iam_policy(int argc, char *const *argv, char *const *environment);

/* Prints the tables that the sidecar creates, a line for each: what `aws dynamodb create-table --cli-input-json` takes,
 * and the very request that the sidecar sends. A table that several subscriptions share is printed once. */
int ks_command_table_schema(int argc, char *const *argv, char *const *environment);

#endif
