#!/bin/bash
# self_test.sh - a test library that cannot fail tests nothing: small programs that must fail, and must be counted.
#
# Silent when all is well; ends with the total when asked with -v.
# SPDX-License-Identifier: Apache-2.0
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# says WHAT STATUS COMMAND... - the command must print WHAT (a part of its output) and end with STATUS.
says() {
    local what=$1 expected=$2 said status=0
    shift 2
    said=$("$@" 2>&1) || status=$?
    if [ "$status" = "$expected" ] && [[ $said == *"$what"* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s\ndid not say "%s" with status %s, but with %s:\n%s\n' "$*" "$what" "$expected" "$status" "$said"
    fi
}

cat >"$work/program.c" <<'CODE'
#include "ks_test.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
TEST(good) { EXPECT(1 < 2); EXPECT_EQ_I64(-3, -3); EXPECT_STR("a", "a"); EXPECT_MEM("ab", "ab", 2); EXPECT_STR(NULL, NULL); }
TEST(bad_fact) { EXPECT(2 < 1); }
TEST(bad_i64) { EXPECT_EQ_I64(1 + 1, 3); }
TEST(bad_u64) { EXPECT_EQ_U64(1, UINT64_MAX); }
TEST(bad_str) { EXPECT_STR("a", "b"); }
TEST(bad_null) { EXPECT_STR(NULL, "b"); }
TEST(bad_mem) { EXPECT_MEM("abcd", "abxd", 4); }
TEST(bad_part) { EXPECT_CONTAINS("abcd", "x"); }
TEST(bad_env) { ks_test_env("KS_NOT_THERE"); }
TEST(bad_signal) { raise(SIGSEGV); }
TEST(bad_exit) { exit(0 + 7); }
TEST(dir_1) { FILE *file = fopen(ks_test_path("x"), "wx"); EXPECT(file != NULL); printf("dir %s\n", ks_test_dir()); fclose(file); }
TEST(dir_2) { FILE *file = fopen(ks_test_path("x"), "wx"); EXPECT(file != NULL); fclose(file); }
CODE
echo '#include "ks_test.h"' >"$work/empty.c"
for program in program empty; do
    gcc -std=c11 -D_GNU_SOURCE -I"$here" -o "$work/$program" "$work/$program.c" "$here/ks_test.c" "$here/ks_test_main.c" || exit 1
done

export TMPDIR=$work/tmp
mkdir "$TMPDIR"
program=$work/program
says '3 passed, 10 failed' 1 "$program"
says 'does not hold: 2 < 1' 1 "$program" bad_fact
says 'program.c:7: 1 + 1 is 2, expected 3' 1 "$program" bad_i64
says '1 is 1, expected 18446744073709551615' 1 "$program" bad_u64
says '"a" is "a",' 1 "$program" bad_str
says 'is NULL, expected b' 1 "$program" bad_null
says 'differs at byte 2 of 4' 1 "$program" bad_mem
says 'expected it to contain "x"' 1 "$program" bad_part
says 'KS_NOT_THERE is not set' 1 "$program" bad_env
says 'bad_signal: Segmentation fault' 1 "$program" bad_signal
says 'FAILED bad_exit' 1 "$program" bad_exit
says '1 passed, 0 failed' 0 "$program" good
says '2 passed, 0 failed' 0 "$program" dir_
says '0 passed, 1 failed' 1 "$program" --no-fork bad_i64
says '0 passed, 1 failed' 1 "$program" no_such_test
says '0 passed, 1 failed' 1 "$work/empty"
says '' 1 grep -r . "$TMPDIR" # Nothing is left behind.

says '4 passed, 10 failed' 1 "$here/run" -j 2 "a title" -- "$program" "$program good"
says '1 passed, 0 failed' 0 "$here/run" "a title" -- "$program good"
says '3 passed, 0 failed' 0 "$here/run" "a title" -- "$program good" --beside 2 "$program good" "$program good"
says '1 passed, 1 failed' 1 "$here/run" "a title" -- "$program good" --beside 1 "$program bad_fact"
says '1 passed, 0 failed' 0 "$here/run" "a title" -- --beside 1 "$program good"
says 'no closing line, exit status 0' 1 "$here/run" "a title" -- true
says '0 passed, 1 failed' 1 "$here/run" "a title" -- "sh -c exit"
says '0 passed, 1 failed' 1 "$here/run" "nothing at all" --
printf '#!/bin/sh\necho "5 passed, 0 failed"\nexit 3\n' >"$work/liar"
printf '#!/bin/sh\necho "0 passed, 0 failed"\n' >"$work/idler"
chmod +x "$work/liar" "$work/idler"
says '5 passed, 1 failed' 1 "$here/run" "a title" -- "$work/liar"
says 'tested nothing' 1 "$here/run" "a title" -- "$work/idler"
TEST_SECONDS=1 says 'exit status 124' 1 "$here/run" "a title" -- "sleep 5"

[ "${1:-}" = -v ] && echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
