/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options_derive.h"

#include "ks_test.h"

#include <stdio.h>

static struct ks_options options;
static struct ks_detail detail;

/* What follows from these; "" is left out. */
static ks_err derive(const char *source, const char *leases, const char *state_dir)
{
    memset(&options, 0, sizeof(options));
    snprintf(options.source, sizeof(options.source), "%s", source);
    snprintf(options.leases, sizeof(options.leases), "%s", leases);
    snprintf(options.state_dir, sizeof(options.state_dir), "%s", state_dir);
    snprintf(options.application, sizeof(options.application), "app");
    return ks_options_derive(&options, &detail);
}

TEST(a_local_source_has_its_leases_beside_it)
{
    static const char *const cases[][3] = {
        {"local:/d/stream.db", "", "sqlite:/d/leases.db"},
        {"local:s.db", "", "sqlite:./leases.db"},
        {"local:/s.db", "", "sqlite:/leases.db"},
        {"local:/d/stream.db", "sqlite:/e/x.db", "sqlite:/e/x.db"},
        {"kinesis", "", "dynamodb"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        EXPECT_OK(derive(cases[at][0], cases[at][1], ""));
        EXPECT_STR(options.leases, cases[at][2]);
        EXPECT_STR(options.name, "app");
    }
}

TEST(state_and_dead_letters_lie_beside_leases_that_are_a_file)
{
    static const char *const cases[][4] = {
        {"sqlite:/d/x.db", "", "/d", "sqlite:/d/dead_letters.db"},
        {"sqlite:x.db", "", ".", "sqlite:./dead_letters.db"},
        {"sqlite:/x.db", "", "/", "sqlite://dead_letters.db"},
        {"dynamodb", "", "", "table"},
        {"dynamodb", "/var/state", "/var/state", "table"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        EXPECT_OK(derive("kinesis", cases[at][0], cases[at][1]));
        EXPECT_STR(options.state_dir, cases[at][2]);
        EXPECT_STR(options.dead_letters, cases[at][3]);
    }
}

TEST(a_path_that_is_too_long_is_told)
{
    char source[KS_OPTION_TEXT_SIZE];

    memset(source, 'd', sizeof(source) - 1);
    memcpy(source, "local:/", 7);
    source[sizeof(source) - 3] = '/';
    source[sizeof(source) - 1] = '\0';
    EXPECT_ERR(derive(source, "", ""), INVALID);
    EXPECT_CONTAINS(detail.text, "--source: the path is too long");
}

TEST(each_process_start_has_its_own_worker_id)
{
    char first[KS_OPTION_TEXT_SIZE];

    options.worker_id[0] = '\0';
    ks_options_name_worker(&options);
    snprintf(first, sizeof(first), "%s", options.worker_id);
    EXPECT(strlen(first) > 9);
    options.worker_id[0] = '\0';
    ks_options_name_worker(&options);
    EXPECT(strcmp(first, options.worker_id) != 0);
    snprintf(options.worker_id, sizeof(options.worker_id), "pod-b");
    ks_options_name_worker(&options);
    EXPECT_STR(options.worker_id, "pod-b");
}
