/* SPDX-License-Identifier: Apache-2.0 */
#include "api/spelling.h"
#include "ks_test.h"

#include <string.h>

static const ProtobufCMessageDescriptor *const settle =
    &kinesis_sidecar__v1__settle_request__descriptor;
static const ProtobufCMessageDescriptor *const record = &kinesis_sidecar__v1__record__descriptor;

TEST(a_member_has_two_names)
{
    char buffer[KS_JSON_NAME_MAX];

    EXPECT_STR(ks_field_name(&settle->fields[2], KS_SPELLING_REST, buffer), "wait_ms");
    EXPECT_STR(ks_field_name(&settle->fields[2], KS_SPELLING_PROTO, buffer), "waitMs");
    EXPECT(ks_field_find(settle, KS_SPELLING_PROTO, "waitMs") == &settle->fields[2]);
    EXPECT(ks_field_find(settle, KS_SPELLING_PROTO, "wait_ms") == &settle->fields[2]);
    EXPECT(ks_field_find(settle, KS_SPELLING_REST, "waitMs") == NULL);
    EXPECT(ks_field_find(settle, KS_SPELLING_PROTO, "waitMS") == NULL);
}

TEST(instants_are_known_by_their_names)
{
    EXPECT(ks_field_is_instant(
        ks_field_find(record, KS_SPELLING_REST, "approximate_arrival_timestamp")));
    EXPECT(!ks_field_is_instant(ks_field_find(record, KS_SPELLING_REST, "sub_sequence_number")));
    EXPECT(!ks_field_is_instant(ks_field_find(settle, KS_SPELLING_REST, "wait_ms")));
}

TEST(words_have_no_prefix)
{
    char word[KS_JSON_WORD_MAX];

    ks_enum_word(&kinesis_sidecar__v1__outcome__descriptor, "OUTCOME_DEAD_LETTER", word);
    EXPECT_STR(word, "dead_letter");
}

TEST(a_url_names_a_type_of_the_list)
{
    const ProtobufCMessageDescriptor *list[] = {record};
    struct ks_json_types types = {list, 1};

    EXPECT(ks_type_of_url(&types, "type.googleapis.com/kinesis_sidecar.v1.Record") == record);
    EXPECT(ks_type_of_url(&types, "kinesis_sidecar.v1.Record") == NULL);
    EXPECT(ks_type_of_url(&types, "x/kinesis_sidecar.v1.Shard") == NULL);
    EXPECT(ks_type_of_url(&types, NULL) == NULL);
    EXPECT(ks_type_of_url(NULL, "x/kinesis_sidecar.v1.Record") == NULL);
    EXPECT(!ks_type_is_any(record));
}
