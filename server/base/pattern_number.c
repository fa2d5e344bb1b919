/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_number.h"

enum {
    DIGITS_MAX = 17,    /* Of the shortest decimal of any double. */
    DIGITS_ALWAYS = 15, /* Each decimal of so many digits is the shortest of its double. */
    LAST_PLACE_MIN = -22,
    LAST_PLACE_MAX = 21,
    EXPONENT_BOUND = 1 << 20 /* Far beyond all doubles: larger exponents count as this one. */
};

__extension__ typedef unsigned __int128 wide;

static const struct ks_pattern_number largest = {
    .sign = 1, .exponent = 309, .digits = UINT64_C(17976931348623157)};
static const struct ks_pattern_number smallest = {
    .sign = 1, .exponent = -323, .digits = UINT64_C(49000000000000000)};

int ks_pattern_number_compare(const struct ks_pattern_number *a, const struct ks_pattern_number *b)
{
    int larger = 0;

    if (a->sign != b->sign)
        return a->sign - b->sign;
    if (a->exponent != b->exponent)
        larger = a->exponent > b->exponent ? 1 : -1;
    else if (a->digits != b->digits)
        larger = a->digits > b->digits ? 1 : -1;
    return larger * a->sign;
}

static wide power_of_ten(int exponent)
{
    wide power = 1;

    for (int i = 0; i < exponent; i++)
        power *= 10;
    return power;
}

static int bits_of(wide value)
{
    uint64_t high = (uint64_t)(value >> 64);

    if (high != 0)
        return 128 - __builtin_clzll(high);
    return value == 0 ? 0 : 64 - __builtin_clzll((uint64_t)value);
}

/* A double as a fraction beside a decimal: with a decimal of mantissa m, value m * numerator / denominator, the double
 * is `whole`, in a unit in which whole numbers are its neighbours. */
struct scale {
    wide numerator, denominator;
    uint64_t whole; /* 2^52 .. 2^53. */
};

/* The double nearest to mantissa * 10^place; ties go to the even one. All products stay below 2^128, because the
 * mantissa has 16 or 17 digits and `place` is within its bounds. */
static struct scale scale_of(uint64_t mantissa, int place)
{
    struct scale scale = {.numerator = power_of_ten(place), .denominator = power_of_ten(-place)};
    int up = 53 - (bits_of(mantissa * scale.numerator) - bits_of(scale.denominator));
    wide rest;

    if (up >= 0)
        scale.numerator <<= up;
    else
        scale.denominator <<= -up;
    if (mantissa * scale.numerator / scale.denominator >= (wide)1 << 53) {
        if (up > 0)
            scale.numerator >>= 1;
        else
            scale.denominator <<= 1;
    }
    scale.whole = (uint64_t)(mantissa * scale.numerator / scale.denominator);
    rest = mantissa * scale.numerator % scale.denominator;
    if (2 * rest > scale.denominator || (2 * rest == scale.denominator && (scale.whole & 1) != 0))
        scale.whole++;
    return scale;
}

static wide distance(const struct scale *scale, uint64_t mantissa)
{
    wide decimal = mantissa * scale->numerator;
    wide binary = scale->whole * scale->denominator;

    return decimal > binary ? decimal - binary : binary - decimal;
}

/* True if the decimal of this mantissa, too, has the double as its nearest. */
static bool rounds_alike(const struct scale *scale, uint64_t mantissa)
{
    wide away = distance(scale, mantissa);
    bool below = mantissa * scale->numerator < scale->whole * scale->denominator;

    /* The neighbour below a power of two is half as far. */
    if (below && scale->whole == UINT64_C(1) << 52)
        away *= 2;
    return 2 * away < scale->denominator ||
           (2 * away == scale->denominator && (scale->whole & 1) == 0);
}

/* True if the next decimal of as many digits, on the other side of the double, has the same double and is its
 * shortest form: it is nearer, or as near and even. */
static bool has_nearer(const struct scale *scale, uint64_t mantissa)
{
    wide twice = 2 * distance(scale, mantissa);
    bool below = mantissa * scale->numerator < scale->whole * scale->denominator;

    if (twice < scale->numerator || (twice == scale->numerator && mantissa % 2 == 0))
        return false;
    return rounds_alike(scale, below ? mantissa + 1 : mantissa - 1);
}

/* True if no decimal of fewer digits has the same double, and none of as many is its shortest form. Outside the bounds
 * of the last digit the answer is always true, because programs write the shortest decimal. */
static bool is_shortest(uint64_t mantissa, int place)
{
    uint64_t shorter = mantissa - mantissa % 10;
    struct scale scale;

    if (place < LAST_PLACE_MIN || place > LAST_PLACE_MAX)
        return true;
    scale = scale_of(mantissa, place);
    return !has_nearer(&scale, mantissa) && !rounds_alike(&scale, shorter) &&
           !rounds_alike(&scale, shorter + 10);
}

/* The exponent after "e", bounded. */
static int32_t read_exponent(ks_view text)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    int32_t value = 0;

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] >= '0' && text.data[i] <= '9' && value < EXPONENT_BOUND)
            value = value * 10 + (text.data[i] - '0');
    }
    value = value < EXPONENT_BOUND ? value : EXPONENT_BOUND;
    return negative ? -value : value;
}

/* The digits of a number, as they are collected. */
struct digits {
    uint64_t value;   /* Of the first DIGITS_MAX significant digits. */
    uint32_t kept;    /* Digits in `value`; those after the last that is not 0 included. */
    uint32_t zeros;   /* At the end of `value`. */
    bool too_many;    /* A digit that is not 0 is lost. */
    int32_t exponent; /* Digits before the point less zeros after it. */
};

static void add_digit(struct digits *digits, uint8_t digit, bool after_point)
{
    if (digits->kept == 0 && digit == 0) {
        digits->exponent -= after_point ? 1 : 0;
        return;
    }
    digits->exponent += after_point ? 0 : 1;
    if (digits->kept == DIGITS_MAX) {
        digits->too_many = digits->too_many || digit != 0;
        return;
    }
    digits->value = digits->value * 10 + digit;
    digits->kept++;
    digits->zeros = digit == 0 ? digits->zeros + 1 : 0;
}

static bool is_comparable(const struct ks_pattern_number *number, const struct digits *digits)
{
    struct ks_pattern_number magnitude = *number;
    uint32_t significant = digits->kept - digits->zeros;
    uint64_t mantissa = digits->value;

    magnitude.sign = 1;
    if (digits->too_many || ks_pattern_number_compare(&magnitude, &largest) > 0 ||
        ks_pattern_number_compare(&magnitude, &smallest) < 0)
        return false;
    if (significant <= DIGITS_ALWAYS)
        return true;
    for (uint32_t i = 0; i < digits->zeros; i++)
        mantissa /= 10;
    return is_shortest(mantissa, number->exponent - (int32_t)significant);
}

struct ks_pattern_number ks_pattern_number_read(ks_view text)
{
    struct ks_pattern_number number = {.comparable = true, .sign = 1};
    struct digits digits = {0};
    bool after_point = false;
    int32_t exponent = 0;

    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == 'e' || byte == 'E') {
            exponent = read_exponent(ks_view_of(text.data + i + 1, text.size - i - 1));
            break;
        }
        if (byte == '-')
            number.sign = -1;
        else if (byte == '.')
            after_point = true;
        else
            add_digit(&digits, (uint8_t)(byte - '0'), after_point);
    }
    if (digits.kept == 0) {
        number.sign = 0;
        return number;
    }
    number.exponent = digits.exponent + exponent;
    number.digits = digits.value;
    for (uint32_t i = digits.kept; i < DIGITS_MAX; i++)
        number.digits *= 10;
    number.comparable = is_comparable(&number, &digits);
    return number;
}
