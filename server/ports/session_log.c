/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/session_log.h"

#include <assert.h>
#include <inttypes.h>

#include "base/log.h"

/* True if a line more may be told. */
static bool may_tell(struct ks_session_log *log, ks_instant now, const char *prefix)
{
    ks_instant end = ks_instant_add(log->since, ks_span_ms(KS_SESSION_LINES_MS));

    if (log->lines == 0 || ks_instant_reached(now, end)) {
        if (log->more > 0)
            ks_info("%s%" PRIu32 " more sessions were opened or ended, and not told", prefix,
                    log->more);
        *log = (struct ks_session_log){.since = now};
    }
    if (log->lines == KS_SESSION_LINES_MAX) {
        log->more++;
        return false;
    }
    log->lines++;
    return true;
}

void ks_session_log_opened(struct ks_session_log *log, ks_instant now, const char *prefix,
                           const char *client_id, bool pulls)
{
    if (may_tell(log, now, prefix))
        ks_info("%ssession %s: opened by a %s", prefix, client_id, pulls ? "poll" : "stream");
}

void ks_session_log_closed(struct ks_session_log *log, ks_instant now, const char *prefix,
                           const char *client_id)
{
    if (may_tell(log, now, prefix))
        ks_info("%ssession %s: closed by its client", prefix, client_id);
}

void ks_session_log_ended(struct ks_session_log *log, ks_instant now, const char *prefix,
                          const char *client_id, enum ks_session_end why)
{
    if (!may_tell(log, now, prefix))
        return;
    switch (why) {
    case KS_END_TAKEN_OVER:
        ks_warn("%ssession %s: taken over by another connection with the same client_id; give each "
                "process its own",
                prefix, client_id);
        return;
    case KS_END_GRACE:
        ks_info("%ssession %s: ended, its connection did not come back; its records come again",
                prefix, client_id);
        return;
    case KS_END_LINGER:
        ks_info("%ssession %s: ended, nobody polls it any more; its records come again", prefix,
                client_id);
        return;
    case KS_END_DRAINED: ks_info("%ssession %s: ended by the drain", prefix, client_id); return;
    }
    assert(false);
}
