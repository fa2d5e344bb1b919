/* SPDX-License-Identifier: Apache-2.0 */
#include "api/code.h"

#include <assert.h>

static const struct {
    const char *name;
    uint16_t http;
} codes[] = {[KS_CODE_OK] = {"ok", 200},
#define X(kind, number, name, http) [number] = {name, http},
             KS_CODE_TABLE(X)
#undef X
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

const char *ks_code_name(enum ks_code code)
{
    assert(code > KS_CODE_OK && code < CODES);
    return codes[code].name;
}

uint16_t ks_code_http(enum ks_code code)
{
    assert(code < CODES);
    return codes[code].http;
}

enum ks_code ks_code_of_problem(enum ks_problem problem)
{
    for (size_t i = KS_CODE_OK + 1; i < CODES; i++)
        if (strcmp(codes[i].name, ks_problem_code(problem)) == 0)
            return (enum ks_code)i;
    assert(false);
    return KS_CODE_UNKNOWN;
}
