/* SPDX-License-Identifier: Apache-2.0 */
/* ks_test.h - a test library of one page: TEST, EXPECT, a process for each test.
 *
 *     TEST(a_lease_counts_from_the_request)
 *     {
 *         EXPECT(ks_lease_may_deliver(&lease, now));
 *         EXPECT_EQ_I64(lease.counter, 7);
 *     }
 *
 * A test registers itself; main() is in tests/lib/ks_test_main.c and comes with the linker. Every test runs in its own
 * process for at most 60 s, so a crash, an assert or a hang fails that test and no other. The first expectation that
 * does not hold ends the test, with file, line and values. All values are evaluated once.
 *
 * A program takes [--no-fork] [--list] [--share K/N] [--without NAME,NAME..] [PART]: only tests whose name contains
 * PART run, of these only the K-th of N shares, and none that is named after --without. It ends with the line
 * `N passed, M failed` and exit status 0 only if at least one test ran and none failed.
 */
#ifndef KS_TEST_H
#define KS_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ks_test {
    const char *name;
    void (*run)(void);
    struct ks_test *next;
};

#define TEST(name)                                                                                 \
    static void ks_test_run_##name(void);                                                          \
    static struct ks_test ks_test_##name = {#name, ks_test_run_##name, NULL};                      \
    __attribute__((constructor)) static void ks_test_add_##name(void)                              \
    {                                                                                              \
        ks_test_add(&ks_test_##name);                                                              \
    }                                                                                              \
    static void ks_test_run_##name(void)

/* What must hold. */
#define EXPECT(fact) ks_test_expect(__FILE__, __LINE__, #fact, (fact))
#define EXPECT_EQ_I64(actual, expected)                                                            \
    ks_test_eq_i64(__FILE__, __LINE__, #actual, (int64_t)(actual), (int64_t)(expected))
#define EXPECT_EQ_U64(actual, expected)                                                            \
    ks_test_eq_u64(__FILE__, __LINE__, #actual, (uint64_t)(actual), (uint64_t)(expected))
#define EXPECT_STR(actual, expected)                                                               \
    ks_test_eq_str(__FILE__, __LINE__, #actual, (actual), (expected))
#define EXPECT_MEM(actual, expected, bytes)                                                        \
    ks_test_eq_mem(__FILE__, __LINE__, #actual, (actual), (expected), (bytes))
#define EXPECT_CONTAINS(text, part) ks_test_contains(__FILE__, __LINE__, #text, (text), (part))

/* For a ks_err; the file that uses them includes base/err.h. `name` is as in KS_FAIL: EXPECT_ERR(read(), MALFORMED). */
#define EXPECT_OK(result)                                                                          \
    ks_test_eq_str(__FILE__, __LINE__, #result, ks_err_name(result), ks_err_name(KS_OK))
#define EXPECT_ERR(result, name)                                                                   \
    ks_test_eq_str(__FILE__, __LINE__, #result, ks_err_name(result), ks_err_name(KS_FAIL(name)))

/* A place that should not be reached. */
#define FAIL(...) ks_test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* An empty directory of this test's own, made at the first call, removed with all in it after the test. */
const char *ks_test_dir(void);

/* The path of `name` in ks_test_dir(); good until the end of the test. At most 16 a test. */
const char *ks_test_path(const char *name);

/* An environment variable that must be there, like KS_DYNAMODB_URL from tests/emulators/with; fails the test if not. */
const char *ks_test_env(const char *name);

/* Runs `life(0)` .. `life(count - 1)`, each in a process of its own; they start together, when all are there. Waits for
 * all, and says how many ended with `code`. One that is killed ended with 255. */
enum { KS_TEST_AT_ONCE_MAX = 16 };
uint32_t ks_test_at_once(uint32_t count, int (*life)(uint32_t which), int code);

/* The rest is for the macros and for main(). */
void ks_test_add(struct ks_test *test);
int ks_test_main(int argc, char **argv);

_Noreturn void ks_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ks_test_eq_i64(const char *file, int line, const char *what, int64_t actual, int64_t expected);
void ks_test_eq_u64(const char *file, int line, const char *what, uint64_t actual,
                    uint64_t expected);
void ks_test_eq_str(const char *file, int line, const char *what, const char *actual,
                    const char *expected);
void ks_test_eq_mem(const char *file, int line, const char *what, const void *actual,
                    const void *expected, size_t bytes);
void ks_test_contains(const char *file, int line, const char *what, const char *text,
                      const char *part);

static inline void ks_test_expect(const char *file, int line, const char *fact, bool holds)
{
    if (!holds)
        ks_test_fail(file, line, "does not hold: %s", fact);
}

#endif
