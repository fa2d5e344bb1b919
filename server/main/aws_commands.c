/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_commands.h"

#include "adapters/dynamodb/wire.h"
#include "aws/arn.h"
#include "aws/settings.h"
#include "base/budget.h"
#include "main/aws_tables.h"
#include "main/call.h"
#include "main/permissions.h"

#include <stdlib.h>
#include <string.h>

enum { EXIT_NOTHING = 1, EXIT_WRONG = 2 };

/* ---- iam-policy ---- */

enum { ROLE, EXISTING, STREAM_KEY, LETTERS_KEY };
static const struct ks_call_flag policy_flags[] = {
    {"--role", true},
    {"--existing", false},
    {"--stream-kms-key", true},
    {"--dead-letters-kms-key", true},
    {NULL, false},
};

/* A key is named by its ARN: its region and account may be others than those of what it encrypts. */
static bool is_key(const struct ks_call *call, int flag)
{
    const char *const value = call->values[flag];
    struct ks_arn arn;

    if (value == NULL || (ks_ok(ks_arn_split(ks_view_text(value), &arn)) &&
                          ks_view_equal(arn.service, KS_VIEW("kms")) &&
                          ks_view_starts(arn.resource, KS_VIEW("key/"))))
        return true;
    ks_call_complain("%s must be arn:PARTITION:kms:REGION:ACCOUNT:key/ID, got %s",
                     policy_flags[flag].name, value);
    return false;
}

/* AWS_ACCOUNT_ID, as the credentials read it. */
static const char *account(void)
{
    const char *const value = getenv("AWS_ACCOUNT_ID");

    return value != NULL && ks_account_is_valid(ks_view_text(value)) ? value : "";
}

static ks_err print_policy(const struct ks_call *call, const char *region, struct ks_detail *detail)
{
    const struct ks_permissions_query query = {
        .options = &call->options,
        .region = region,
        .account = account(),
        .stream_key = call->values[STREAM_KEY],
        .letters_key = call->values[LETTERS_KEY],
        .role = call->values[ROLE],
        .existing = call->values[EXISTING] != NULL,
    };
    struct ks_bytes text;
    ks_err err;

    ks_bytes_init(&text, KS_PERMISSIONS_BYTES_MAX);
    err = ks_permissions_policy(&text, &query, detail);
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(&text));
    ks_bytes_free(&text);
    return err;
}

/* The region of `run`, but that the instance is not asked. */
static ks_err run_policy(const struct ks_call *call, struct ks_detail *detail)
{
    struct ks_settings *const settings = ks_alloc(sizeof(*settings));
    ks_err err = settings == NULL ? KS_FAIL(NO_MEMORY) : ks_settings_read(NULL, settings, detail);

    if (ks_ok(err))
        err = print_policy(call, settings->region, detail);
    ks_free(settings);
    return err;
}

static int finish(const char *command, ks_err err, const struct ks_detail *detail)
{
    if (ks_ok(err))
        return 0;
    ks_call_complain("%s: %s", command, detail->text[0] != '\0' ? detail->text : ks_err_text(err));
    return ks_err_is(err, KS_ERR_INVALID) ? EXIT_WRONG : EXIT_NOTHING;
}

int ks_command_iam_policy(int argc, char *const *argv, char *const *environment)
{
    struct ks_detail detail = {""};
    struct ks_call call;
    int exit_code = EXIT_WRONG;

    if (!ks_call_read_whole(argc, argv, environment, policy_flags, &call))
        return EXIT_WRONG;
    if (is_key(&call, STREAM_KEY) && is_key(&call, LETTERS_KEY))
        exit_code = finish("iam-policy", run_policy(&call, &detail), &detail);
    ks_options_free(&call.options);
    return exit_code;
}

/* ---- table-schema ---- */

static ks_err add_table(struct ks_bytes *lines, const struct ks_aws_table *table)
{
    struct ks_bytes line;
    ks_err err;

    ks_bytes_init(&line, KS_DYNAMODB_BODY_MAX);
    err = ks_dynamodb_put_create(&line, table->name, table->key);
    if (ks_ok(err))
        err = ks_bytes_append_byte(&line, '\n');
    /* A line begins with the name of its table, and subscriptions that share a table share its dialect. */
    if (ks_ok(err) &&
        (lines->size == 0 || memmem(lines->data, lines->size, line.data, line.size) == NULL))
        err = ks_bytes_append(lines, ks_bytes_view(&line));
    ks_bytes_free(&line);
    return err;
}

static ks_err add_tables(struct ks_bytes *lines, const struct ks_options *options)
{
    struct ks_aws_table tables[KS_AWS_TABLES_MAX];
    const uint32_t count = ks_aws_tables(options, tables);

    for (uint32_t at = 0; at < count; at++)
        if (!tables[at].optional)
            KS_TRY(add_table(lines, &tables[at]));
    return KS_OK;
}

static ks_err print_tables(const struct ks_options *options, struct ks_detail *detail)
{
    struct ks_bytes lines;
    ks_err err = KS_OK;

    ks_bytes_init(&lines, KS_PERMISSIONS_BYTES_MAX);
    for (uint32_t i = 0; i < ks_options_subscriptions(options) && ks_ok(err); i++)
        err = add_tables(&lines, ks_options_subscription(options, i));
    if (ks_ok(err) && lines.size == 0)
        err = ks_err_because(KS_FAIL(NOT_FOUND), detail, "these options use no table in DynamoDB");
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(&lines));
    ks_bytes_free(&lines);
    return err;
}

int ks_command_table_schema(int argc, char *const *argv, char *const *environment)
{
    static const struct ks_call_flag none[] = {{NULL, false}};
    struct ks_detail detail = {""};
    struct ks_call call;
    int exit_code;

    if (!ks_call_read_whole(argc, argv, environment, none, &call))
        return EXIT_WRONG;
    exit_code = finish("table-schema", print_tables(&call.options, &detail), &detail);
    ks_options_free(&call.options);
    return exit_code;
}
