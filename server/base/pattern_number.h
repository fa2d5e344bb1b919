/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_number.h - numbers as event patterns compare them: decimal, exact, without a float.
 *
 * event-ruler compares the IEEE 754 doubles of two numbers, and only numbers that a double represents: those that are
 * the shortest decimal of their double. Among these the order of the decimals is the order of the doubles, so the
 * decimals are compared. A number is comparable if it is 0, or its magnitude is 4.9e-324 to 1.7976931348623157e308
 * (DBL_MAX) and it has at most 17 significant digits; zeros at both ends do not count. With 16 or 17 of them it must be
 * the shortest decimal of its double: 9007199254740993 and 0.30000000000000001 are not. That is computed if its last
 * digit counts 1e-22 to 1e21, and else taken for granted.
 */
#ifndef KS_BASE_PATTERN_NUMBER_H
#define KS_BASE_PATTERN_NUMBER_H

#include "base/bytes.h"

struct ks_pattern_number {
    bool comparable;
    int8_t sign;      /* -1, 0, 1. */
    int32_t exponent; /* Magnitude: 0.DIGITS times ten to this power. */
    uint64_t digits;  /* 17 digits, the first is not 0; for 0: 0. */
};

/* Reads a number as JSON writes it. */
struct ks_pattern_number ks_pattern_number_read(ks_view text);

/* Returns a negative value, 0 or a positive value as a < b, a == b or a > b. Both are comparable. */
int ks_pattern_number_compare(const struct ks_pattern_number *a, const struct ks_pattern_number *b);

#endif
