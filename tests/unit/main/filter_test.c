/* SPDX-License-Identifier: Apache-2.0 */
#include "main/filter.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_pattern *filter;
static struct ks_detail detail;

static void write_file(const char *path, const char *text)
{
    FILE *const file = fopen(path, "we");

    EXPECT(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool passes(const char *key)
{
    const struct ks_pattern_record record = {.partition_key = ks_view_text(key)};

    return ks_pattern_matches(filter, &record);
}

TEST(no_filter_is_none)
{
    EXPECT_OK(ks_filter_load("", &filter, &detail));
    EXPECT(filter == NULL);
}

TEST(a_filter_is_the_document_or_a_file_that_has_it)
{
    static const char document[] = "{\"partitionKey\":[{\"prefix\":\"eu-\"}]}";
    const char *const path = ks_test_path("filter.json");

    EXPECT_OK(ks_filter_load(document, &filter, &detail));
    EXPECT(passes("eu-1") && !passes("us-1"));
    ks_pattern_free(filter);
    write_file(path, document);
    EXPECT_OK(ks_filter_load(path, &filter, &detail));
    EXPECT(passes("eu-1") && !passes("us-1"));
    ks_pattern_free(filter);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_no_filter_is_told)
{
    static char large[KS_PATTERN_TEXT_MAX + 2];
    const char *const path = ks_test_path("filter.json");

    EXPECT_ERR(ks_filter_load("{", &filter, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--filter: ");
    EXPECT_ERR(ks_filter_load("/no/such/file", &filter, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--filter: /no/such/file cannot be read: No such file");
    EXPECT_ERR(ks_filter_load(ks_test_dir(), &filter, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "cannot be read");
    write_file(path, "");
    EXPECT_ERR(ks_filter_load(path, &filter, &detail), INVALID);
    memset(large, ' ', sizeof large - 1);
    write_file(path, large);
    EXPECT_ERR(ks_filter_load(path, &filter, &detail), INVALID);
    EXPECT(filter == NULL);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
