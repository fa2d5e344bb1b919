/* SPDX-License-Identifier: Apache-2.0 */
#include "main/lease_commands.h"

#include "base/log.h"
#include "main/lease_verbs.h"

#include <string.h>
#include <unistd.h>

enum { USAGE_BYTES_MAX = 16 << 10 };

static const char usage[] =
    "kinesis-sidecar leases [list | show SHARD] [--subscription NAME]\n"
    "    What a running sidecar says of its leases.\n"
    "kinesis-sidecar leases list --table TABLE\n"
    "kinesis-sidecar leases show SHARD --table TABLE\n"
    "    What stands in a lease table; rows that cannot be read are named with their attribute.\n"
    "kinesis-sidecar leases convert --from TABLE --to TABLE [--as ACCOUNT:STREAM:EPOCH]\n"
    "    Writes the rows of one table into another one, which is made if it is not there; the "
    "first stays as it\n"
    "    is. Every lease is free there, and where it was. With --force: rows that cannot be "
    "converted are left\n"
    "    out, rows of the target are overwritten, those of other shards stay. --as: as rows of "
    "that "
    "stream, in a\n"
    "    table of the KCL that has several.\n"
    "kinesis-sidecar leases seize WORKER --table TABLE\n"
    "    Takes all leases from a worker that is dead; a native one is fenced first.\n"
    "kinesis-sidecar leases release SHARD .. | --all --table TABLE\n"
    "    Makes leases free; their checkpoints stay.\n"
    "kinesis-sidecar leases reset SHARD .. | --all --at PLACE --table TABLE\n"
    "    Makes leases free and moves them: trim_horizon, latest, an RFC 3339 instant, the sequence "
    "number of the\n"
    "    next record, or after:SEQUENCE[:SUB].\n"
    "\n"
    "Of a table of several streams SHARD is ACCOUNT:STREAM:EPOCH:SHARD, or with --stream NAME the "
    "shard alone; --all\n"
    "and convert want --stream there.\n"
    "TABLE is DIALECT[:NAME], a table of that name in DynamoDB (default: --application), or "
    "native:sqlite:PATH with\n"
    "--application. DIALECT is one of: ";

bool ks_leases_usage(void)
{
    struct ks_bytes text;
    ks_err err;
    bool fine;

    ks_bytes_init(&text, USAGE_BYTES_MAX);
    err = ks_bytes_append(&text, ks_view_text(usage));
    for (uint32_t i = 0; ks_ok(err) && ks_dialect_at(i) != NULL; i++)
        err = ks_bytes_format(&text, "%s%s", i == 0 ? "" : ", ", ks_dialect_at(i)->name);
    if (ks_ok(err))
        err = ks_bytes_append(
            &text,
            KS_VIEW(".\nEverything that writes first watches for --lease-duration-ms whether "
                    "a fleet lives on the table,\nand does nothing then, nor with --dry-run; "
                    "--force goes on without a look. Exit status: 0 done, 1 not done,\n"
                    "2 wrong words.\n"));
    fine = ks_lease_say(&text, err);
    ks_bytes_free(&text);
    return fine;
}

/* What is done with a table, how many words it takes, and which flags it needs. */
static const struct verb {
    const char *name;
    int (*run)(const struct ks_lease_words *words);
    uint32_t words_min;
    uint32_t words_max;
    bool two_tables;
    bool at;
} verbs[] = {
    {"list", ks_leases_list, 1, 1, false, false},
    {"show", ks_leases_show, 2, 2, false, false},
    {"convert", ks_leases_convert, 1, 1, true, false},
    {"seize", ks_leases_seize, 2, 2, false, false},
    {"release", ks_leases_release, 2, KS_CALL_WORDS_MAX, false, false},
    {"reset", ks_leases_reset, 2, KS_CALL_WORDS_MAX, false, true},
};

static bool fits(const struct verb *verb, const struct ks_lease_words *words)
{
    const uint32_t count = words->call->word_count;

    for (uint32_t i = 0; i < count; i++)
        if (words->call->words[i][0] == '\0') /* As a script says that lacks a name. */
            return false;
    if (words->all)
        return count == 1 && verb->words_max == KS_CALL_WORDS_MAX && words->table != NULL &&
               (words->at != NULL) == verb->at && words->as == NULL;
    return count >= verb->words_min && count <= verb->words_max &&
           (words->table != NULL) == !verb->two_tables &&
           (words->from != NULL && words->to != NULL) == verb->two_tables &&
           (words->at != NULL) == verb->at && (words->as == NULL || verb->two_tables);
}

/* Each word names a table, and two of them two. */
static bool name_tables(const struct ks_lease_words *words)
{
    struct ks_lease_desk desk = {.options = &words->call->options};
    const char *const named[] = {words->table, words->from, words->to};
    struct ks_lease_table tables[3];
    struct ks_detail detail = {""};

    for (size_t i = 0; i < 3; i++)
        if (named[i] != NULL && !ks_ok(ks_lease_table_name(&tables[i], &desk, named[i], &detail))) {
            ks_call_complain("leases: %s", detail.text);
            return false;
        }
    if (words->from == NULL || !ks_lease_table_same(&tables[1], &tables[2]))
        return true;
    ks_call_complain("convert: --from and --to name the same table");
    return false;
}

int ks_leases_with_table(const struct ks_lease_words *words)
{
    const char *const name = words->call->word_count == 0 ? "list" : words->call->words[0];

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        if (fits(&verbs[i], words)) {
            if (!name_tables(words))
                return 2;
            ks_log_open(STDERR_FILENO, KS_LOG_WARN, KS_LOG_TEXT);
            return verbs[i].run(words);
        }
    }
    ks_call_complain("leases %s: not so; leases --help says how", name);
    return 2;
}
