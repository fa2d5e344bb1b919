/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include "api/routes.h"
#include "base/budget.h"
#include "docs.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static const char *document(struct ks_bytes *bytes)
{
    ks_bytes_init(bytes, 1 << 20);
    EXPECT_OK(ks_openapi_write(bytes));
    EXPECT_OK(ks_bytes_append_byte(bytes, '\0'));
    return (const char *)bytes->data;
}

TEST(every_local_route_is_in_the_document_and_no_other)
{
    struct ks_bytes bytes;
    const char *text = document(&bytes);
    size_t count;
    const struct ks_route *routes = ks_routes(&count);

    for (size_t i = 0; i < count; i++) {
        char path[100];

        (void)snprintf(path, sizeof(path), "\"%s\":{", routes[i].path);
        EXPECT_EQ_I64(strstr(text, path) != NULL, routes[i].door == KS_DOOR_LOCAL);
        if (routes[i].door == KS_DOOR_LOCAL)
            EXPECT_CONTAINS(text, routes[i].sentence);
    }
    ks_bytes_free(&bytes);
}

TEST(schemas_are_those_of_the_messages)
{
    struct ks_bytes bytes;
    const char *text = document(&bytes);

    EXPECT_CONTAINS(text, "{\"openapi\":\"3.1.0\"");
    EXPECT_CONTAINS(text, "\"SeekRequest\":{\"type\":\"object\",\"additionalProperties\":false,"
                          "\"properties\":{\"to\":{\"type\":[\"string\",\"null\"]}");
    EXPECT_CONTAINS(text, "\"until\":{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}");
    EXPECT_CONTAINS(text, "\"enum\":[\"done\",\"dry_run\",\"refused\",\"unknown\",null]");
    EXPECT_CONTAINS(text, "\"before\":{\"anyOf\":[{\"$ref\":\"#/components/schemas/Place\"}");
    EXPECT_CONTAINS(text, "\"name\":\"max_records\",\"in\":\"query\",\"required\":false,\"schema\":"
                          "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000}");
    EXPECT_CONTAINS(text, "\"name\":\"id\",\"in\":\"path\",\"required\":true");
    ks_bytes_free(&bytes);
}

TEST(the_page_in_the_docs_is_this_document)
{
    docs_expect_table("docs/openapi.json", ks_openapi_write);
}

TEST(a_document_without_memory_is_none)
{
    struct ks_bytes bytes;
    int failures = 0;

    for (uint64_t n = 1; n < 50; n++) {
        ks_bytes_init(&bytes, 1 << 20);
        ks_alloc_fail_after(n, 1);
        failures += !ks_ok(ks_openapi_write(&bytes));
        ks_alloc_fail_after(0, 0);
        ks_bytes_free(&bytes);
    }
    EXPECT(failures > 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
