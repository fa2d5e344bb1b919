/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes a connection of HTTP/1.1: heads, bodies, chunks, with libmicrohttpd. */
#include "peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hear_peer(KS_VIEW_NONE, data, size);
    return 0;
}
