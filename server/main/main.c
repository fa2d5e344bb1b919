/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - which subcommand is it? */
#include "base/bytes.h"
#include "base/options.h"
#include "main/aws_commands.h"
#include "main/call.h"
#include "main/capture.h"
#include "main/commands.h"
#include "main/files.h"
#include "main/house.h"
#include "main/version.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int run(int argc, char *const *argv, char *const *environment);
static int config(int argc, char *const *argv, char *const *environment);
static int version(int argc, char *const *argv, char *const *environment);
static int help(int argc, char *const *argv, char *const *environment);

struct command {
    const char *name;
    int (*run)(int argc, char *const *argv, char *const *environment);
    const char *usage;
    const char *sentence;
};

static const struct command commands[] = {
    {"run", run, "[OPTION ..]", "Run the sidecar. Without a subcommand this is meant."},
    {"put", ks_command_put, "[--data TEXT] [--partition-key KEY] [--subscription NAME]",
     "Put TEXT, or each line of stdin, into the local stream."},
    {"pull", ks_command_pull, "[--subscription NAME] [--follow] [--max-records N] [--wait-ms N] ..",
     "Print some records, or all that come, as JSON."},
    {"ack", ks_command_ack, "[--batch-id ID] [--wait persisted] [ACK_ID ..]",
     "Acknowledge what was pulled."},
    {"health", ks_command_health, "[readyz | livez | startupz]", "Ask a probe."},
    {"wait", ks_command_wait, "[--timeout-ms N]", "Wait until the sidecar is ready."},
    {"drain", ks_command_drain, "[--subscription NAME]",
     "Give every lease back; the sidecar stays up."},
    {"leases", ks_command_leases,
     "[list | show SHARD | convert | seize WORKER | release SHARD | reset SHARD] ..",
     "Print who holds which shard, and how far it is; or work with a lease table: leases --help."},
    {"dead-letters", ks_command_dead_letters,
     "[list | count | show ID | redrive ID .. | discard ID ..] [--subscription NAME]",
     "Print records that were given up, deliver them again, or remove them for good."},
    {"top", ks_command_top, "[--subscription NAME] [--once]",
     "Watch shards and sessions, each second; or once."},
    {"pause", ks_command_pause,
     "[SHARD ..] [--until INSTANT] [--give-leases] [--subscription NAME]",
     "Read and deliver nothing more of these shards, or of all."},
    {"resume", ks_command_resume, "[SHARD ..] [--subscription NAME]",
     "End pauses, and try records again that stopped a shard."},
    {"skip", ks_command_skip, "SHARD [SEQUENCE[:SUB]] [--dry-run] [--subscription NAME]",
     "Give up the record that holds up a shard; it becomes a dead letter where there are any."},
    {"seek", ks_command_seek, "PLACE [SHARD ..] [--dry-run] [--force] [--subscription NAME]",
     "Move checkpoints of paused shards: to trim_horizon, latest, an instant, a sequence number."},
    {"release", ks_command_release, "SHARD [--subscription NAME]",
     "Give the lease of a shard to another worker."},
    {"capture", ks_command_capture,
     "FILE [--from PLACE] [--to PLACE] [--shard ID] [--most-records N] [--most-bytes N] [--force]",
     "Write a slice of the stream into a file that --source local:FILE reads."},
    {"quit", ks_command_quit, "", "Give every lease back, and end the sidecar then."},
    {"config", config, "validate [OPTION ..]",
     "Check the options and the files that they name, and say what is wrong."},
    {"iam-policy", ks_command_iam_policy,
     "[--existing] [--role ARN] [--stream-kms-key ARN] [--dead-letters-kms-key ARN] [OPTION ..]",
     "Print the least IAM policy with which the sidecar runs with these options."},
    {"table-schema", ks_command_table_schema, "[OPTION ..]",
     "Print the DynamoDB tables that it needs, as aws dynamodb create-table --cli-input-json takes "
     "them."},
    {"version", version, "", "Print the version."},
    {"help", help, "", "Print this."},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* They are ignored, for they may be meant for somebody else. */
static void tell_strays(char *const *environment)
{
    ks_view name;

    while (ks_options_stray(&environment, &name))
        ks_call_complain("%.*s names no option, and is ignored", (int)name.size,
                         (const char *)name.data);
}

static int run(int argc, char *const *argv, char *const *environment)
{
    const struct ks_command_line line = {argc, argv, environment};
    struct ks_options options;
    struct ks_detail detail;
    int exit_code;

    tell_strays(environment);
    if (!ks_ok(ks_options_read(argc, argv, environment, &options, &detail))) {
        ks_call_complain("%s", detail.text);
        return 2;
    }
    exit_code = ks_house_run(&options, &line);
    ks_options_free(&options);
    return exit_code;
}

static void say_file(void *arg, const char *line)
{
    (void)arg;
    ks_call_complain("%s", line);
}

static int config(int argc, char *const *argv, char *const *environment)
{
    struct ks_options options;
    struct ks_detail detail;
    uint32_t wrong = 0;

    if (argc < 2 || strcmp(argv[1], "validate") != 0) {
        ks_call_complain("config: the one thing to do with it is: config validate [OPTION ..]");
        return 2;
    }
    tell_strays(environment);
    if (!ks_ok(ks_options_read(argc - 1, argv + 1, environment, &options, &detail))) {
        ks_call_complain("%s", detail.text);
        return 2;
    }
    for (uint32_t i = 0; i < ks_options_subscriptions(&options); i++)
        wrong += ks_files_check(ks_options_subscription(&options, i), say_file, NULL);
    ks_options_free(&options);
    if (wrong > 0)
        return 2;
    return ks_ok(ks_call_print(NULL, KS_VIEW("the options are valid\n"))) ? 0 : 1;
}

static int version(int argc, char *const *argv, char *const *environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    return ks_ok(ks_call_print(NULL, KS_VIEW("kinesis-sidecar " KS_VERSION "\n"))) ? 0 : 1;
}

static int help(int argc, char *const *argv, char *const *environment)
{
    enum { HELP_MAX = 64 * 1024 };
    struct ks_bytes text;
    ks_err err = KS_OK;

    (void)argc;
    (void)argv;
    (void)environment;
    ks_bytes_init(&text, HELP_MAX);
    err = ks_bytes_format(&text, "kinesis-sidecar [SUBCOMMAND] [OPTION ..]\n\nSubcommands:\n");
    for (int i = 0; i < COMMANDS && ks_ok(err); i++)
        err = ks_bytes_format(&text, "  %s %s\n      %s\n", commands[i].name, commands[i].usage,
                              commands[i].sentence);
    if (ks_ok(err))
        err = ks_bytes_format(&text, "\nAn example without AWS:\n"
                                     "  kinesis-sidecar --stream demo --application demo "
                                     "--source local:./demo.db\n\nOptions:\n");
    if (ks_ok(err))
        err = ks_options_help(&text);
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(&text));
    ks_bytes_free(&text);
    return ks_ok(err) ? 0 : 1;
}

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

/* A descriptor that is closed would be given to the next file or socket that is opened, and take what is written to the
 * standard output or to the log. False: one is closed, and there is no /dev/null to open in its place. Where all are
 * open none is needed: an empty root has no /dev. */
static bool open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* The lowest descriptor that is free is the one that is opened. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!open_standard_descriptors()) {
        ks_call_complain(
            "a standard descriptor is closed and /dev/null cannot be opened; give it one of both");
        return 1;
    }
    if (asks_for_help(argc, argv) && strcmp(argv[1], "leases") != 0)
        return help(argc, argv, environ);
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return version(argc, argv, environ);
    /* Without a subcommand the options begin at once. */
    if (argc < 2 || argv[1][0] == '-')
        return run(argc, argv, environ);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1, environ);
    }
    ks_call_complain("%s is no subcommand; kinesis-sidecar help lists them", argv[1]);
    return 2;
}
