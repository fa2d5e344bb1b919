/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes a connection of HTTP/2: frames, heads, bodies. The input is what a peer says after its preface and SETTINGS;
 * frames have bytes of 0xFF, too: that only cuts them. */
#include "peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

    hear_peer(ks_view_of(opening, sizeof(opening) - 1), data, size);
    return 0;
}
