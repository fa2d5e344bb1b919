/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - limits that every floor knows. */
#ifndef KS_BASE_LIMITS_H
#define KS_BASE_LIMITS_H

enum {
    /* Of one process. Each has its own core, and its own series of most metrics. */
    KS_SUBSCRIPTIONS_MAX = 32,
    KS_SUBSCRIPTION_NAME_MAX = 255 /* Characters: by default the name of a lease table. */
};

#endif
