/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - a test library of one page.
 *
 *     TEST(reason_is_cut)
 *     {
 *         EXPECT_STR(reason, "asked");
 *     }
 *
 * Each test runs in a process of its own, for CHECK_SECONDS at most. The first expectation that
 * does not hold ends it. A program takes [PART]: the tests whose name contains PART run. main()
 * is in check.c.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECK_SECONDS = 120, CHECK_PATIENCE_MS = 60000 };

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

void check_add(struct check_test *test);
void check_that(bool holds, const char *file, int line, const char *what);
void check_equal(int64_t actual, int64_t expected, const char *file, int line, const char *what);
void check_text(const char *actual, const char *expected, const char *file, int line,
                const char *what);
void check_contains(const char *text, const char *part, const char *file, int line,
                    const char *what);

/* Milliseconds of the monotonic clock. */
int64_t check_now(void);

void check_sleep(int ms);

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    static struct check_test check_##name = {#name, test_##name, NULL};                            \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        check_add(&check_##name);                                                                  \
    }                                                                                              \
    static void test_##name(void)

#define EXPECT(fact) check_that((fact), __FILE__, __LINE__, #fact)
#define EXPECT_EQ(actual, expected)                                                                \
    check_equal((int64_t)(actual), (int64_t)(expected), __FILE__, __LINE__, #actual)
#define EXPECT_STR(actual, expected) check_text((actual), (expected), __FILE__, __LINE__, #actual)
#define EXPECT_CONTAINS(text, part) check_contains((text), (part), __FILE__, __LINE__, #text)

/* Waits until the fact holds. */
#define EVENTUALLY(fact)                                                                           \
    do {                                                                                           \
        int64_t check_until = check_now() + CHECK_PATIENCE_MS;                                     \
        while (!(fact)) {                                                                          \
            check_that(check_now() < check_until, __FILE__, __LINE__, "in time: " #fact);          \
            check_sleep(2);                                                                        \
        }                                                                                          \
    } while (0)

#endif
