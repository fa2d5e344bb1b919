/* SPDX-License-Identifier: Apache-2.0 */
/* session_log.h - tells the log of sessions that begin and end, and not more of them than somebody can read.
 *
 * An app whose connections break and come back opens a session each time: beyond KS_SESSION_LINES_MAX lines in
 * KS_SESSION_LINES_MS the lines are counted, and the number is told with the first line of the next span. Loop thread.
 */
#ifndef KS_PORTS_SESSION_LOG_H
#define KS_PORTS_SESSION_LOG_H

#include "base/instant.h"
#include "core/effect.h"

enum { KS_SESSION_LINES_MAX = 20, KS_SESSION_LINES_MS = 10000 };

/* Zeroed: nothing was told. */
struct ks_session_log {
    ks_instant since; /* The first line of the span. */
    uint32_t lines;   /* That were told in it. */
    uint32_t more;    /* That were not. */
};

/* A session of this client begins. `prefix` names the subscription, or is "". */
void ks_session_log_opened(struct ks_session_log *log, ks_instant now, const char *prefix,
                           const char *client_id, bool pulls);
/* The client closes it. */
void ks_session_log_closed(struct ks_session_log *log, ks_instant now, const char *prefix,
                           const char *client_id);
/* It ends without its client's doing. */
void ks_session_log_ended(struct ks_session_log *log, ks_instant now, const char *prefix,
                          const char *client_id, enum ks_session_end why);

#endif
