/* SPDX-License-Identifier: Apache-2.0 */
/* What requests look like, and what AWS says of those that do not: the members of each, in tables. */
#include "kinesis.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

enum kind { TEXT, INTEGER, TIME, BLOB, LIST, STRUCTURE };

enum pattern { ANY, NAME, SEQUENCE, HASH, ITERATOR_TYPES, FILTER_TYPES };
/* As AWS writes it, and as POSIX reads it. */
static const struct {
    const char *shown, *regex;
} patterns[] = {
    [NAME] = {"[a-zA-Z0-9_.-]+", "^[a-zA-Z0-9_.-]+$"},
    [SEQUENCE] = {"0|([1-9]\\d{0,128})", "^(0|[1-9][0-9]{0,128})$"},
    [HASH] = {"0|([1-9]\\d{0,38})", "^(0|[1-9][0-9]{0,38})$"},
    [ITERATOR_TYPES] =
        {"[AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON]",
         "^(AFTER_SEQUENCE_NUMBER|LATEST|AT_TIMESTAMP|AT_SEQUENCE_NUMBER|TRIM_HORIZON)$"},
    [FILTER_TYPES] =
        {"[AT_TRIM_HORIZON, FROM_TRIM_HORIZON, AT_LATEST, AFTER_SHARD_ID, AT_TIMESTAMP, "
         "FROM_TIMESTAMP]",
         "^(AT_TRIM_HORIZON|FROM_TRIM_HORIZON|AT_LATEST|AFTER_SHARD_ID|AT_TIMESTAMP|"
         "FROM_TIMESTAMP)$"},
};

struct field {
    const char *name;
    enum kind kind;
    bool required;
    int64_t least, most; /* Of the length, or of the number. `most` 0: any. */
    enum pattern pattern;
    const struct field *members; /* Of a structure, or of each of a list. */
};

#define STREAM_NAME                                                                                \
    {                                                                                              \
        "StreamName", TEXT, true, 1, 128, NAME, NULL                                               \
    }
#define STREAM_ARN                                                                                 \
    {                                                                                              \
        "StreamARN", TEXT, false, 1, 2048, ANY, NULL                                               \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, TEXT, false, 0, 0, ANY, NULL                                                         \
    }
#define FIELDS(operation) static const struct field operation##_fields[]

FIELDS(stream) = {STREAM_NAME, STREAM_ARN, END};
FIELDS(describe) = {{"Limit", INTEGER, false, 1, 10000, ANY, NULL},
                    {"ExclusiveStartShardId", TEXT, false, 1, 128, NAME, NULL},
                    STREAM_NAME,
                    STREAM_ARN,
                    END};
FIELDS(create) = {{"ShardCount", INTEGER, true, 1, 100000, ANY, NULL}, STREAM_NAME, END};
FIELDS(filter) = {{"Type", TEXT, true, 0, 0, FILTER_TYPES, NULL},
                  {"ShardId", TEXT, false, 1, 128, NAME, NULL},
                  {"Timestamp", TIME, false, 0, 0, ANY, NULL},
                  END};
FIELDS(list) = {{"ExclusiveStartShardId", TEXT, false, 1, 128, NAME, NULL},
                {"MaxResults", INTEGER, false, 1, 10000, ANY, NULL},
                {"NextToken", TEXT, false, 1, 1048576, ANY, NULL},
                {"StreamCreationTimestamp", TIME, false, 0, 0, ANY, NULL},
                {"StreamName", TEXT, false, 1, 128, NAME, NULL},
                {"ShardFilter", STRUCTURE, false, 0, 0, ANY, filter_fields},
                STREAM_ARN,
                END};
FIELDS(split) = {{"NewStartingHashKey", TEXT, true, 0, 0, HASH, NULL},
                 STREAM_NAME,
                 {"ShardToSplit", TEXT, true, 1, 128, NAME, NULL},
                 STREAM_ARN,
                 END};
FIELDS(merge) = {{"ShardToMerge", TEXT, true, 1, 128, NAME, NULL},
                 {"AdjacentShardToMerge", TEXT, true, 1, 128, NAME, NULL},
                 STREAM_NAME,
                 STREAM_ARN,
                 END};
#define RECORD                                                                                     \
    {"PartitionKey", TEXT, true, 1, 256, ANY, NULL},                                               \
        {"ExplicitHashKey", TEXT, false, 0, 0, HASH, NULL},                                        \
    {                                                                                              \
        "Data", BLOB, true, 0, 0, ANY, NULL                                                        \
    }
FIELDS(put) = {{"SequenceNumberForOrdering", TEXT, false, 0, 0, SEQUENCE, NULL},
               RECORD,
               STREAM_NAME,
               STREAM_ARN,
               END};
FIELDS(entry) = {RECORD, END};
FIELDS(put_all) = {
    {"Records", LIST, true, 1, ENTRIES_MAX, ANY, entry_fields}, STREAM_NAME, STREAM_ARN, END};
FIELDS(iterator) = {{"ShardId", TEXT, true, 1, 128, NAME, NULL},
                    {"ShardIteratorType", TEXT, true, 0, 0, ITERATOR_TYPES, NULL},
                    {"StartingSequenceNumber", TEXT, false, 0, 0, SEQUENCE, NULL},
                    STREAM_NAME,
                    {"Timestamp", TIME, false, 0, 0, ANY, NULL},
                    STREAM_ARN,
                    END};
FIELDS(get) = {{"Limit", INTEGER, false, 1, RECORDS_MAX, ANY, NULL},
               {"ShardIterator", TEXT, true, 1, 512, ANY, NULL},
               STREAM_ARN,
               END};
#define REQUIRED_ARN                                                                               \
    {                                                                                              \
        "StreamARN", TEXT, true, 1, 2048, ANY, NULL                                                \
    }
FIELDS(register) = {REQUIRED_ARN, {"ConsumerName", TEXT, true, 1, 128, NAME, NULL}, END};
FIELDS(consumer) = {STREAM_ARN,
                    {"ConsumerName", TEXT, false, 1, 128, NAME, NULL},
                    {"ConsumerARN", TEXT, false, 1, 2048, ANY, NULL},
                    END};
FIELDS(consumers) = {REQUIRED_ARN, END};
FIELDS(position) = {{"Type", TEXT, true, 0, 0, ITERATOR_TYPES, NULL},
                    {"SequenceNumber", TEXT, false, 0, 0, SEQUENCE, NULL},
                    {"Timestamp", TIME, false, 0, 0, ANY, NULL},
                    END};
FIELDS(subscribe) = {{"ConsumerARN", TEXT, true, 1, 2048, ANY, NULL},
                     {"ShardId", TEXT, true, 1, 128, NAME, NULL},
                     {"StartingPosition", STRUCTURE, true, 0, 0, ANY, position_fields},
                     END};

static const struct {
    const char *operation;
    const struct field *fields;
} requests[] = {
    {"CreateStream", create_fields},
    {"DeleteStream", stream_fields},
    {"DescribeStream", describe_fields},
    {"DescribeStreamSummary", stream_fields},
    {"ListShards", list_fields},
    {"SplitShard", split_fields},
    {"MergeShards", merge_fields},
    {"PutRecord", put_fields},
    {"PutRecords", put_all_fields},
    {"GetShardIterator", iterator_fields},
    {"GetRecords", get_fields},
    {"RegisterStreamConsumer", register_fields},
    {"DeregisterStreamConsumer", consumer_fields},
    {"DescribeStreamConsumer", consumer_fields},
    {"ListStreamConsumers", consumers_fields},
    {"SubscribeToShard", subscribe_fields},
};

/* ---- Types ---- */

static const char *const type_names[] = {[TEXT] = "an String",
                                         [INTEGER] = "an Integer",
                                         [TIME] = "milliseconds since epoch",
                                         [BLOB] = "a Blob"};

/* "" if it is of its type. */
static void wrong_type(const struct field *field, const json_t *value, char *wrong, size_t size)
{
    bool is_number = field->kind == INTEGER || field->kind == TIME;
    const char *class = json_is_string(value) ? "java.lang.String"
                        : json_is_number(value)
                            ? "com.amazon.coral.value.json.numbers.TruncatingBigNumber"
                            : "java.lang.Boolean";

    wrong[0] = '\0';
    if (json_is_array(value)) {
        if (field->kind != LIST)
            snprintf(wrong, size, "Start of list found where not expected");
    } else if (json_is_object(value)) {
        if (field->kind != STRUCTURE)
            snprintf(wrong, size, "Start of structure or map found where not expected.");
    } else if (field->kind == LIST || field->kind == STRUCTURE)
        snprintf(wrong, size, field->kind == LIST ? "Expected list or null" : "Expected null");
    else if (is_number ? !json_is_number(value) : !json_is_string(value))
        snprintf(wrong, size, "class %s can not be converted to %s", class,
                 type_names[field->kind]);
    if (field->kind == BLOB && wrong[0] == '\0' && json_string_length(value) % 4 != 0)
        snprintf(wrong, size,
                 "'%s' can not be converted to a Blob: Base64 encoded length is expected a "
                 "multiple of 4 bytes but found: %zu",
                 json_string_value(value), json_string_length(value));
}

static bool type_right(struct call *call, const struct field *field, const json_t *value)
{
    char wrong[600];

    wrong_type(field, value, wrong, sizeof wrong);
    if (wrong[0] != '\0')
        fail(call, "SerializationException", "%s", wrong);
    return wrong[0] == '\0';
}

static bool types_right(struct call *call, const struct field *fields, const json_t *object)
{
    static const struct field entry = {.kind = STRUCTURE};

    for (; fields->name != NULL; fields++) {
        const json_t *value = json_object_get(object, fields->name);
        size_t index;
        json_t *item;

        if (value == NULL || json_is_null(value))
            continue;
        if (!type_right(call, fields, value))
            return false;
        if (fields->kind == STRUCTURE && !types_right(call, fields->members, value))
            return false;
        json_array_foreach(value, index, item)
        {
            if (!type_right(call, &entry, item) || !types_right(call, fields->members, item))
                return false;
        }
    }
    return true;
}

/* ---- Constraints ---- */

struct findings {
    struct bytes text;
    int count;
};

static void find(struct findings *findings, const char *path, const struct field *field,
                 const char *value, const char *constraint)
{
    if (findings->count++ > 0)
        bytes_print(&findings->text, "; ");
    bytes_print(&findings->text, "Value %s at '%s%c%s' failed to satisfy constraint: %s", value,
                path, field->name[0] | 0x20, field->name + 1, constraint);
}

static bool matches(enum pattern pattern, const char *text)
{
    static regex_t compiled[sizeof patterns / sizeof patterns[0]];
    static bool is_compiled[sizeof patterns / sizeof patterns[0]];

    if (pattern == ANY)
        return true;
    if (!is_compiled[pattern] &&
        regcomp(&compiled[pattern], patterns[pattern].regex, REG_EXTENDED | REG_NOSUB) != 0)
        die("a pattern is none");
    is_compiled[pattern] = true;
    return regexec(&compiled[pattern], text, 0, NULL, 0) == 0;
}

static size_t blob_size(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);

    return size / 4 * 3 - (size > 0 && text[size - 1] == '=') - (size > 1 && text[size - 2] == '=');
}

/* How the value is shown. */
static void show(const struct field *field, const json_t *value, char *text, size_t size)
{
    size_t blob;

    switch (field->kind) {
    case INTEGER: snprintf(text, size, "'%lld'", (long long)json_number_value(value)); break;
    case BLOB:
        blob = blob_size(value);
        snprintf(text, size, "'java.nio.HeapByteBuffer[pos=0 lim=%zu cap=%zu]'", blob, blob);
        break;
    case LIST: snprintf(text, size, "'[%s]'", json_array_size(value) == 0 ? "" : ".."); break;
    case TEXT:
    case TIME:
    case STRUCTURE: snprintf(text, size, "'%s'", json_string_value(value)); break;
    }
}

/* Of a length, in characters, or the number itself. */
static int64_t measure(const struct field *field, const json_t *value)
{
    int64_t characters = 0;

    switch (field->kind) {
    case INTEGER: return (int64_t)json_number_value(value);
    case BLOB: return (int64_t)blob_size(value);
    case LIST: return (int64_t)json_array_size(value);
    case TEXT:
    case TIME:
    case STRUCTURE: break;
    }
    for (const char *at = json_string_value(value); at != NULL && *at != '\0'; at++)
        characters += ((uint8_t)*at & 0xc0) != 0x80;
    return characters;
}

static void check_value(struct findings *findings, const char *path, const struct field *field,
                        const json_t *value)
{
    int64_t most = field->kind == BLOB ? knobs.record_bytes : field->most;
    const char *noun = field->kind == INTEGER ? "value" : "length";
    char shown[700];
    char constraint[300];
    bool is_set = field->pattern == ITERATOR_TYPES || field->pattern == FILTER_TYPES;

    show(field, value, shown, sizeof shown);
    if (field->kind == TEXT && !matches(field->pattern, json_string_value(value))) {
        snprintf(constraint, sizeof constraint, "Member must satisfy %s: %s",
                 is_set ? "enum value set" : "regular expression pattern",
                 patterns[field->pattern].shown);
        find(findings, path, field, shown, constraint);
    }
    if (most == 0)
        return;
    if (measure(field, value) < field->least) {
        snprintf(constraint, sizeof constraint, "Member must have %s greater than or equal to %lld",
                 noun, (long long)field->least);
        find(findings, path, field, shown, constraint);
    }
    if (measure(field, value) > most) {
        snprintf(constraint, sizeof constraint, "Member must have %s less than or equal to %lld",
                 noun, (long long)most);
        find(findings, path, field, shown, constraint);
    }
}

static void check_fields(struct findings *findings, const char *path, const struct field *fields,
                         const json_t *object)
{
    bool by_arn = json_is_string(json_object_get(object, "StreamARN"));
    char inner[128];

    for (; fields->name != NULL; fields++) {
        const json_t *value = json_object_get(object, fields->name);
        size_t index;
        json_t *item;

        if (value == NULL || json_is_null(value)) {
            if (fields->required && !(by_arn && strcmp(fields->name, "StreamName") == 0))
                find(findings, path, fields, "null", "Member must not be null");
            continue;
        }
        if (fields->kind == STRUCTURE) {
            snprintf(inner, sizeof inner, "%c%s.", fields->name[0] | 0x20, fields->name + 1);
            check_fields(findings, inner, fields->members, value);
            continue;
        }
        check_value(findings, path, fields, value);
        json_array_foreach(value, index, item)
        {
            snprintf(inner, sizeof inner, "%c%s.%zu.member.", fields->name[0] | 0x20,
                     fields->name + 1, index + 1);
            check_fields(findings, inner, fields->members, item);
        }
    }
}

bool request_valid(struct call *call)
{
    const struct field *fields = NULL;
    struct findings findings = {.count = 0};

    for (size_t at = 0; at < sizeof requests / sizeof requests[0]; at++) {
        if (strcmp(call->operation, requests[at].operation) == 0)
            fields = requests[at].fields;
    }
    if (!types_right(call, fields, call->in))
        return false;
    check_fields(&findings, "", fields, call->in);
    if (findings.count > 0)
        fail(call, "ValidationException", "%d validation error%s detected: %s", findings.count,
             findings.count > 1 ? "s" : "", (const char *)bytes_front(&findings.text));
    bytes_free(&findings.text);
    return findings.count == 0;
}
