/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <string.h>

struct text {
    const char *at;
    const char *end;
};

static char peek(const struct text *text)
{
    return text->at < text->end ? *text->at : '\0';
}

static void skip_space(struct text *text)
{
    while (text->at < text->end && strchr(" \t\r\n", *text->at) != NULL && *text->at != '\0')
        text->at++;
}

/* The letter that an escape means. Beyond ASCII it is '?'. */
static char read_escape(struct text *text)
{
    static const char NAMES[] = "bfnrt";
    static const char LETTERS[] = "\b\f\n\r\t";
    char name = peek(text);
    const char *found = strchr(NAMES, name);
    unsigned value = 0;

    if (name == '\0')
        return '\0';
    text->at++;
    if (found != NULL)
        return LETTERS[found - NAMES];
    if (name != 'u')
        return name;
    for (int i = 0; i < 4 && peek(text) != '\0'; i++, text->at++) {
        unsigned digit = (unsigned char)*text->at;
        value = value * 16 + (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    return value >= ' ' && value < 0x7F ? (char)value : '?';
}

/* Reads a string, cut to `size` bytes with the NUL. The text is at its first quote. */
static void read_string(struct text *text, char *string, size_t size)
{
    size_t used = 0;

    text->at++;
    while (text->at < text->end && *text->at != '"') {
        char letter = *text->at++;
        if (letter == '\\')
            letter = read_escape(text);
        if (used + 1 < size)
            string[used++] = letter;
    }
    if (text->at < text->end)
        text->at++;
    string[used] = '\0';
}

/* Skips a value of any kind, up to the comma or the bracket after it. */
static void skip_value(struct text *text)
{
    char unused[1];
    unsigned depth = 0;

    while (text->at < text->end) {
        char letter = *text->at;
        if (letter == '"') {
            read_string(text, unused, sizeof(unused));
            continue;
        }
        if (depth == 0 && (letter == ',' || letter == '}'))
            return;
        if (letter == '{' || letter == '[')
            depth++;
        if (letter == '}' || letter == ']')
            depth--;
        text->at++;
    }
}

static void read_member(struct text *text, struct ks_problem *problem)
{
    char name[16] = "";

    read_string(text, name, sizeof(name));
    skip_space(text);
    if (peek(text) == ':')
        text->at++;
    skip_space(text);
    if (strcmp(name, "code") == 0 && peek(text) == '"')
        read_string(text, problem->code, sizeof(problem->code));
    else if (strcmp(name, "detail") == 0 && peek(text) == '"')
        read_string(text, problem->detail, sizeof(problem->detail));
    else if (strcmp(name, "retryable") == 0)
        problem->is_retryable = peek(text) == 't';
    skip_value(text);
}

struct ks_problem ks_problem_read(const char *body, size_t size)
{
    struct ks_problem problem = {0};
    struct text text = {body, size == 0 ? body : body + size};

    skip_space(&text);
    if (peek(&text) != '{')
        return problem;
    do {
        text.at++;
        skip_space(&text);
        if (peek(&text) != '"')
            break;
        read_member(&text, &problem);
    } while (peek(&text) == ',');
    return problem;
}
