/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors/rows/foreign_rows.h"

#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

char foreign_line[2048];
static size_t size;

void foreign_say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    size += (size_t)vsnprintf(foreign_line + size, sizeof(foreign_line) - size, format, list);
    va_end(list);
    EXPECT(size < sizeof(foreign_line));
}

const char *foreign_or_none(const char *text)
{
    return text[0] == '\0' ? "-" : text;
}

void foreign_say_position(const struct ks_store_lease *row)
{
    if (row->finished)
        foreign_say("at its end");
    else if (row->unstarted)
        foreign_say("not begun");
    else if (row->checkpoint.sub_sequence >= 0)
        foreign_say("after %s/%" PRId64 ", for others after %s", row->checkpoint.sequence,
                    row->checkpoint.sub_sequence, row->whole.sequence);
    else
        foreign_say("after %s", row->checkpoint.sequence);
}

void foreign_rows_mean(const char *path, size_t least, const struct ks_dialect *dialect,
                       void (*say)(const struct ks_store_lease *row))
{
    static char text[64 << 10];
    const int fd = open(path, O_RDONLY);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text));
    struct ks_json *cases = NULL;
    struct ks_bytes texts;

    EXPECT(bytes > 0 && bytes < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)bytes), &cases));
    EXPECT(ks_json_count(cases) >= least);
    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < ks_json_count(cases); at++) {
        const struct ks_json *const one = ks_json_item(cases, at);
        struct ks_native_rows rows = {.workers = NULL};
        struct ks_item item;
        ks_view expected;

        EXPECT_OK(ks_json_text(ks_json_member(one, "row"), &expected));
        EXPECT_OK(ks_dynamodb_read_item(ks_json_member(one, "item"), dialect->tables[0].schema,
                                        &texts, &item));
        EXPECT_OK(dialect->add(&rows, &item, NULL));
        EXPECT_EQ_I64(rows.lease_count, 1);
        size = 0;
        if (rows.leases[0].damaged)
            foreign_say("%s damaged", rows.leases[0].shard);
        else
            say(&rows.leases[0]);
        EXPECT_STR(foreign_line, (const char *)expected.data);
        ks_native_rows_free(&rows);
    }
    ks_bytes_free(&texts);
    ks_json_free(cases);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

const char *foreign_write(const struct ks_dialect *dialect, const char *key,
                          const struct ks_store_request *request)
{
    static const char *const ifs[] = {[KS_IF_EQUALS] = "=",
                                      [KS_IF_EQUALS_OR_ABSENT] = "=?",
                                      [KS_IF_ABSENT] = "absent",
                                      [KS_IF_ABSENT_OR_NULL] = "absent or null"};
    struct ks_item_write write;

    size = 0;
    EXPECT_OK(dialect->write(request, &write, NULL));
    EXPECT_STR(write.key, key);
    EXPECT(write.p == NULL);
    for (uint32_t at = 0; at < write.condition_count; at++)
        foreign_say("%s%s %s %.*s", at == 0 ? "if " : ", ", write.conditions[at].name,
                    ifs[write.conditions[at].kind], (int)write.conditions[at].value.text.size,
                    (const char *)write.conditions[at].value.text.data);
    foreign_say(write.delete_row ? "; delete" : ";");
    for (uint32_t at = 0; at < write.update_count; at++) {
        EXPECT(write.updates[at].kind == KS_DO_REMOVE ||
               write.updates[at].value.type == KS_VALUE_TEXT);
        foreign_say("%s%s%s%.*s", at == 0 ? " " : ", ", write.updates[at].name,
                    write.updates[at].kind == KS_DO_REMOVE ? " removed" : " = ",
                    (int)write.updates[at].value.text.size,
                    (const char *)write.updates[at].value.text.data);
    }
    ks_item_write_free(&write);
    return foreign_line;
}
