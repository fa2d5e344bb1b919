/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - any bytes as a config and a credentials file (a NUL between them): the plan ends, lies
 * within, and holds what its base needs.
 */
#include "aws/credentials/plan.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_within(ks_view part, const uint8_t *data, size_t size)
{
    assert(part.size == 0 || (part.data >= data && part.data + part.size <= data + size));
}

static void expect_sound(const struct ks_plan *plan, const uint8_t *data, size_t size)
{
    assert(plan->role_count <= KS_ROLES_MAX);
    for (uint32_t at = 0; at < plan->role_count; at++) {
        const struct ks_role *role = &plan->roles[at];

        assert(role->arn.size > 0);
        assert(role->duration_seconds == 0 ||
               (role->duration_seconds >= 900 && role->duration_seconds <= 43200));
        expect_within(role->arn, data, size);
        expect_within(role->session_name, data, size);
        expect_within(role->external_id, data, size);
    }
    assert(plan->role_count == 0 || plan->base != KS_PLAN_NOTHING);
    assert((plan->base == KS_PLAN_KEYS) == (plan->access_key.size > 0));
    assert((plan->base == KS_PLAN_KEYS) == (plan->secret_key.size > 0));
    assert((plan->base == KS_PLAN_PROCESS) == (plan->process.size > 0));
    assert((plan->base == KS_PLAN_WEB_IDENTITY) == (plan->token_file.size > 0));
    assert((plan->base == KS_PLAN_WEB_IDENTITY) == (plan->web_role.arn.size > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"default", "a", "b"};
    struct ks_plan_question question = {.named = true};
    ks_view rest = ks_view_of(data, size);
    struct ks_plan plan;
    struct ks_detail detail;

    question.text[KS_PROFILE_CONFIG] = ks_view_cut(&rest, '\0');
    question.text[KS_PROFILE_CREDENTIALS] = rest;
    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
        question.profile = names[at];
        detail.text[0] = '\0';
        if (ks_ok(ks_plan_make(&question, &plan, &detail)))
            expect_sound(&plan, data, size);
        else
            assert(detail.text[0] != '\0');
    }
    return 0;
}
