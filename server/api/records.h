/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - GET /v1/records: the polls that wait, for those who end sessions. */
#ifndef KS_API_RECORDS_H
#define KS_API_RECORDS_H

#include "api/server.h"

/* The session of those who poll without a name. */
#define KS_DEFAULT_SESSION "default"

/* The session was closed by request: the polls that wait for it are answered. */
void ks_records_session_closed(struct ks_subscription *subscription, ks_session_id session);

#endif
