/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h - notices that nothing comes any more.
 *
 * A network that forgot a connection says nothing, for ever. Who waits for bytes tells when some came; after a silence
 * that is too long he is told, once, from the loop. What comes while nobody listens is not missed.
 * Part of its owner; loop thread only.
 */
#ifndef KS_AWS_SILENCE_H
#define KS_AWS_SILENCE_H

#include <stdbool.h>

#include "base/instant.h"
#include "base/loop.h"

struct ks_silence {
    struct ks_loop *loop;
    struct ks_timer timer;
    ks_span most;
    ks_instant heard_at;
    bool deaf; /* Its owner's: nobody listens now. */
    void (*over)(void *arg);
    void *arg;
};

/* It lasts from now on. `most` 0: as long as it likes. Owners that are zeroed need no end. */
void ks_silence_begin(struct ks_silence *silence, struct ks_loop *loop, ks_span most,
                      void (*over)(void *arg), void *arg);
/* From now on it may last so long. */
void ks_silence_limit(struct ks_silence *silence, ks_span most);
/* Something came, or went. */
void ks_silence_broken(struct ks_silence *silence);
/* `over` is called from the loop at once, whatever is heard. */
void ks_silence_call(struct ks_silence *silence);
void ks_silence_end(struct ks_silence *silence);

#endif
