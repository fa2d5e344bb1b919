/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/arn.h"

#include "ks_test.h"

TEST(an_arn_has_six_parts)
{
    struct ks_arn arn;

    EXPECT_OK(ks_arn_split(KS_VIEW("arn:aws-cn:kinesis:cn-north-1:123456789012:stream/a:b"), &arn));
    EXPECT(ks_view_equal(arn.partition, KS_VIEW("aws-cn")));
    EXPECT(ks_view_equal(arn.service, KS_VIEW("kinesis")));
    EXPECT(ks_view_equal(arn.region, KS_VIEW("cn-north-1")));
    EXPECT(ks_view_equal(arn.account, KS_VIEW("123456789012")));
    EXPECT(ks_view_equal(arn.resource, KS_VIEW("stream/a:b")));
    EXPECT_OK(ks_arn_split(KS_VIEW("arn:aws:iam::123456789012:role/r"), &arn));
    EXPECT_EQ_U64(arn.region.size, 0);
    EXPECT_OK(ks_arn_split(KS_VIEW("arn:aws:s3:::bucket"), &arn));
    EXPECT_EQ_U64(arn.account.size, 0);
}

TEST(what_is_no_arn_is_refused)
{
    static const char *const broken[] = {"",
                                         "arn",
                                         "arn:",
                                         "name",
                                         "arn:aws:kinesis:us-east-1:123456789012",
                                         "arn:aws:kinesis:us-east-1:123456789012:",
                                         "arn::kinesis:us-east-1:123456789012:stream/s",
                                         "arn:aws::us-east-1:123456789012:stream/s",
                                         "arn:aws:kinesis:us-east-1:12345678901:stream/s",
                                         "arn:aws:kinesis:us-east-1:1234567890123:stream/s",
                                         "arn:aws:kinesis:us-east-1:12345678901x:stream/s",
                                         "nra:aws:kinesis:us-east-1:123456789012:stream/s"};
    struct ks_arn arn;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        if (ks_ok(ks_arn_split(ks_view_text(broken[at]), &arn)))
            FAIL("'%s' was taken", broken[at]);
    }
}
