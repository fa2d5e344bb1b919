/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/plan.h"

#include <assert.h>

/* What STS takes. */
enum { DURATION_LEAST = 900, DURATION_MOST = 43200 };

typedef char profile_name[KS_PROFILE_NAME_MAX + 1];

/* Where we are on the way from role to role. */
struct step {
    profile_name name;
    bool source; /* Another profile led here. */
    struct ks_profile_found found;
    profile_name passed[KS_ROLES_MAX]; /* The profiles of the roles so far. */
};

static bool has_keys(const struct ks_profile *profile)
{
    return profile->access_key.size > 0 || profile->secret_key.size > 0;
}

/* --- Roles --- */

static ks_err read_role(const struct step *step, struct ks_role *ret_role, struct ks_detail *detail)
{
    const struct ks_profile *profile = &step->found.all;
    uint64_t duration = 0;

    if (profile->duration_seconds.size > 0 &&
        (!ks_ok(ks_view_u64(profile->duration_seconds, &duration)) || duration < DURATION_LEAST ||
         duration > DURATION_MOST))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "profile %s: duration_seconds is no number from %d to %d", step->name,
                              DURATION_LEAST, DURATION_MOST);
    *ret_role = (struct ks_role){profile->role_arn, profile->role_session_name,
                                 profile->external_id, (uint32_t)duration};
    return KS_OK;
}

static ks_err check_role(const struct step *step, struct ks_detail *detail)
{
    const struct ks_profile *profile = &step->found.all;
    bool from_profile = profile->source_profile.size > 0;

    if (profile->mfa_serial.size > 0)
        return ks_err_because(KS_FAIL(UNSUPPORTED), detail,
                              "profile %s: its role wants MFA (mfa_serial), and nobody is there to "
                              "enter a code",
                              step->name);
    if (from_profile == (profile->credential_source.size > 0))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "profile %s: role_arn wants %s source_profile or credential_source",
                              step->name, from_profile ? "only one of" : "a");
    return KS_OK;
}

static ks_err read_source(const struct step *step, enum ks_plan_base *ret_base,
                          struct ks_detail *detail)
{
    static const struct source {
        const char *name;
        enum ks_plan_base base;
    } SOURCES[] = {{"Environment", KS_PLAN_ENVIRONMENT},
                   {"EcsContainer", KS_PLAN_CONTAINER},
                   {"Ec2InstanceMetadata", KS_PLAN_INSTANCE}};
    ks_view name = step->found.all.credential_source;

    for (size_t at = 0; at < sizeof(SOURCES) / sizeof(SOURCES[0]); at++) {
        if (ks_view_equal_nocase(name, ks_view_text(SOURCES[at].name))) {
            *ret_base = SOURCES[at].base;
            return KS_OK;
        }
    }
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "profile %s: credential_source is none of Environment, EcsContainer, "
                          "Ec2InstanceMetadata",
                          step->name);
}

/* --- What is no role --- */

static ks_err read_keys(const struct step *step, const struct ks_profile *profile,
                        struct ks_plan *plan, struct ks_detail *detail)
{
    if (profile->access_key.size == 0 || profile->secret_key.size == 0)
        return ks_err_because(KS_FAIL(INVALID), detail, "the keys of profile %s are incomplete",
                              step->name);
    plan->base = KS_PLAN_KEYS;
    plan->access_key = profile->access_key;
    plan->secret_key = profile->secret_key;
    plan->token = profile->token;
    plan->account = profile->account;
    return KS_OK;
}

static ks_view over(const char *variable, ks_view key)
{
    return variable != NULL ? ks_view_text(variable) : key;
}

static ks_err read_web_identity(const struct ks_plan_question *question, const struct step *step,
                                struct ks_plan *plan, struct ks_detail *detail)
{
    const struct ks_plan_question nothing = {.profile = NULL};

    if (step->source)
        question = &nothing;
    KS_TRY(read_role(step, &plan->web_role, detail));
    plan->base = KS_PLAN_WEB_IDENTITY;
    plan->token_file = over(question->token_file, step->found.all.web_identity_token_file);
    plan->web_role.arn = over(question->role_arn, step->found.all.role_arn);
    plan->web_role.session_name = over(question->session_name, step->found.all.role_session_name);
    plan->web_role.external_id = KS_VIEW_NONE; /* There is none in this request. */
    if (plan->web_role.arn.size > 0)
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "a web identity token file is set, but AWS_ROLE_ARN (or role_arn of the "
                          "profile) is not");
}

static ks_err read_nothing(const struct ks_plan_question *question, const struct step *step,
                           struct ks_plan *plan, struct ks_detail *detail)
{
    plan->base = KS_PLAN_NOTHING;
    if (step->source)
        return ks_err_because(KS_FAIL(INVALID), detail, "source profile %s has no credentials",
                              step->name);
    if (question->named && !step->found.all.found)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "profile %s is neither in the config nor in the credentials file",
                              step->name);
    return KS_OK;
}

static ks_err refuse_login(const struct step *step, const char *what, struct ks_detail *detail)
{
    return ks_err_because(KS_FAIL(UNSUPPORTED), detail,
                          "profile %s uses %s, and nobody is there to log in", step->name, what);
}

static ks_err read_base(const struct ks_plan_question *question, const struct step *step,
                        struct ks_plan *plan, struct ks_detail *detail)
{
    const struct ks_profile *file = step->found.file;
    const struct ks_profile *all = &step->found.all;

    if (all->web_identity_token_file.size > 0 || (!step->source && question->token_file != NULL))
        return read_web_identity(question, step, plan, detail);
    if (all->sso.size > 0)
        return refuse_login(step, "SSO", detail);
    if (has_keys(&file[KS_PROFILE_CREDENTIALS]))
        return read_keys(step, &file[KS_PROFILE_CREDENTIALS], plan, detail);
    if (all->login.size > 0)
        return refuse_login(step, "login_session", detail);
    if (all->process.size > 0) {
        plan->base = KS_PLAN_PROCESS;
        plan->process = all->process;
        return KS_OK;
    }
    if (has_keys(&file[KS_PROFILE_CONFIG]))
        return read_keys(step, &file[KS_PROFILE_CONFIG], plan, detail);
    return read_nothing(question, step, plan, detail);
}

/* --- From role to role --- */

static bool is_role(const struct step *step)
{
    const struct ks_profile *all = &step->found.all;

    return all->role_arn.size > 0 && all->web_identity_token_file.size == 0 &&
           !(step->source && has_keys(all));
}

/* Goes to the source profile. */
static ks_err go_on(const struct ks_plan_question *question, struct step *step,
                    struct ks_detail *detail)
{
    profile_name from;

    memcpy(from, step->name, sizeof(from));
    step->source = true;
    if (!ks_ok(ks_view_copy_text(step->found.all.source_profile, step->name, sizeof(step->name))))
        return ks_err_because(KS_FAIL(INVALID), detail, "profile %s: source_profile is no name",
                              from);
    KS_TRY(ks_profiles_find(question->text, step->name, &step->found, detail));
    if (step->found.all.found)
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "profile %s: its source_profile %s is not there", from, step->name);
}

static ks_err add_role(struct step *step, struct ks_plan *plan, struct ks_detail *detail)
{
    for (uint32_t at = 0; at < plan->role_count; at++) {
        if (strcmp(step->passed[at], step->name) == 0)
            return ks_err_because(KS_FAIL(INVALID), detail,
                                  "profile %s: its source profiles lead back to it", step->name);
    }
    if (plan->role_count == KS_ROLES_MAX)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "profile %s: more than %d source profiles with a role",
                              step->passed[0], KS_ROLES_MAX);
    KS_TRY(check_role(step, detail));
    KS_TRY(read_role(step, &plan->roles[plan->role_count], detail));
    memcpy(step->passed[plan->role_count++], step->name, sizeof(step->name));
    return KS_OK;
}

/* They were found from the last to the first. */
static void turn_around(struct ks_plan *plan)
{
    for (uint32_t low = 0, high = plan->role_count; low + 1 < high; low++) {
        struct ks_role role = plan->roles[low];

        high--;
        plan->roles[low] = plan->roles[high];
        plan->roles[high] = role;
    }
}

ks_err ks_plan_make(const struct ks_plan_question *question, struct ks_plan *ret_plan,
                    struct ks_detail *detail)
{
    struct ks_plan plan = {.base = KS_PLAN_NOTHING};
    struct step step = {.source = false};

    assert(strlen(question->profile) < sizeof(step.name));
    memcpy(step.name, question->profile, strlen(question->profile) + 1);
    KS_TRY(ks_profiles_find(question->text, step.name, &step.found, detail));
    while (plan.base == KS_PLAN_NOTHING && is_role(&step)) {
        KS_TRY(add_role(&step, &plan, detail));
        if (step.found.all.credential_source.size > 0)
            KS_TRY(read_source(&step, &plan.base, detail));
        else
            KS_TRY(go_on(question, &step, detail));
    }
    if (plan.base == KS_PLAN_NOTHING)
        KS_TRY(read_base(question, &step, &plan, detail));
    turn_around(&plan);
    *ret_plan = plan;
    return KS_OK;
}
