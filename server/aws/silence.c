/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/silence.h"

#include "base/list.h"

/* Something may have come since the timer was set. */
static void due(struct ks_timer *timer)
{
    struct ks_silence *silence = KS_LIST_ENTRY(timer, struct ks_silence, timer);
    ks_instant now = ks_loop_now(silence->loop);
    ks_instant until = ks_instant_add(silence->deaf ? now : silence->heard_at, silence->most);

    if (ks_instant_reached(now, until))
        silence->over(silence->arg);
    else
        ks_loop_timer_set(silence->loop, timer, until);
}

void ks_silence_begin(struct ks_silence *silence, struct ks_loop *loop, ks_span most,
                      void (*over)(void *arg), void *arg)
{
    *silence = (struct ks_silence){.loop = loop, .timer = {.due = due}, .over = over, .arg = arg};
    ks_silence_limit(silence, most);
}

void ks_silence_limit(struct ks_silence *silence, ks_span most)
{
    silence->most = most;
    ks_silence_broken(silence);
    if (most.us > 0)
        ks_loop_timer_set(silence->loop, &silence->timer, ks_instant_add(silence->heard_at, most));
    else
        ks_loop_timer_clear(silence->loop, &silence->timer);
}

void ks_silence_broken(struct ks_silence *silence)
{
    silence->heard_at = ks_loop_now(silence->loop);
}

void ks_silence_call(struct ks_silence *silence)
{
    silence->deaf = false;
    silence->most = ks_span_us(0);
    ks_loop_timer_set(silence->loop, &silence->timer, ks_loop_now(silence->loop));
}

void ks_silence_end(struct ks_silence *silence)
{
    if (silence->loop != NULL)
        ks_loop_timer_clear(silence->loop, &silence->timer);
}
