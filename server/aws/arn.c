/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/arn.h"

bool ks_account_is_valid(ks_view account)
{
    for (size_t at = 0; at < account.size; at++) {
        if (account.data[at] < '0' || account.data[at] > '9')
            return false;
    }
    return account.size == KS_ACCOUNT_SIZE - 1;
}

ks_err ks_arn_split(ks_view text, struct ks_arn *ret_arn)
{
    struct ks_arn arn;
    ks_view word = ks_view_cut(&text, ':');

    arn.partition = ks_view_cut(&text, ':');
    arn.service = ks_view_cut(&text, ':');
    arn.region = ks_view_cut(&text, ':');
    arn.account = ks_view_cut(&text, ':');
    arn.resource = text;
    if (!ks_view_equal(word, KS_VIEW("arn")) || arn.partition.size == 0 || arn.service.size == 0 ||
        arn.resource.size == 0 || (arn.account.size > 0 && !ks_account_is_valid(arn.account)))
        return KS_FAIL(INVALID);
    *ret_arn = arn;
    return KS_OK;
}
