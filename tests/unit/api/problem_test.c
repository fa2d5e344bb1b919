/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problem.h"
#include "ks_test.h"

#include <string.h>

TEST(the_body_has_the_members_of_both_kinds_of_client)
{
    struct ks_bytes body;

    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_problem_write(KS_PROBLEM_UNAVAILABLE, KS_VIEW("a \"reason\""), KS_VIEW("/v1/x?y"),
                               &body));
    EXPECT_OK(ks_bytes_append_byte(&body, '\0'));
    EXPECT_STR((const char *)body.data,
               "{\"type\":\"urn:kinesis-sidecar:problem:unavailable\",\"title\":\"Unavailable\","
               "\"status\":503,\"detail\":\"a \\\"reason\\\"\",\"instance\":\"/v1/x?y\","
               "\"retryable\":true,\"code\":\"unavailable\",\"message\":\"a "
               "\\\"reason\\\"\",\"details\":[]}\n");
    ks_bytes_free(&body);
}

/* The statuses of connectrpc.com/docs/protocol for the codes that we use with their own status. */
TEST(codes_have_the_status_of_connect)
{
    static const struct {
        enum ks_problem problem;
        const char *code;
        uint16_t status;
    } wanted[] = {
        {KS_PROBLEM_INVALID_ARGUMENT, "invalid_argument", 400},
        {KS_PROBLEM_FAILED_PRECONDITION, "failed_precondition", 400},
        {KS_PROBLEM_UNAUTHENTICATED, "unauthenticated", 401},
        {KS_PROBLEM_PERMISSION_DENIED, "permission_denied", 403},
        {KS_PROBLEM_NOT_FOUND, "not_found", 404},
        {KS_PROBLEM_SESSION_FENCED, "aborted", 409},
        {KS_PROBLEM_EXHAUSTED, "resource_exhausted", 429},
        {KS_PROBLEM_INTERNAL, "internal", 500},
        {KS_PROBLEM_UNIMPLEMENTED, "unimplemented", 501},
        {KS_PROBLEM_UNAVAILABLE, "unavailable", 503},
        {KS_PROBLEM_TIMEOUT, "deadline_exceeded", 504},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        EXPECT_STR(ks_problem_code(wanted[i].problem), wanted[i].code);
        EXPECT_EQ_U64(ks_problem_status(wanted[i].problem), wanted[i].status);
    }
}
