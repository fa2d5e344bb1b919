/* SPDX-License-Identifier: Apache-2.0 */
/* in_parts.h - a record matched at once and in the smallest parts, which must agree. */
#ifndef KS_TEST_IN_PARTS_H
#define KS_TEST_IN_PARTS_H

#include "base/budget.h"
#include "base/pattern.h"
#include "ks_test.h"

static inline bool matches_in_parts(const struct ks_pattern *pattern,
                                    const struct ks_pattern_record *record)
{
    struct ks_pattern_match *match = ks_pattern_match_new();
    bool at_once = ks_pattern_matches(pattern, record);
    bool passes = !at_once;
    uint64_t units;

    EXPECT(match != NULL);
    ks_pattern_match_begin(match, pattern, record);
    do
        units = 1;
    while (!ks_pattern_match_go_on(match, &units, &passes));
    ks_free(match);
    EXPECT_EQ_I64(passes, at_once);
    return at_once;
}

#endif
