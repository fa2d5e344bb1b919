/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the readers of ack_id and batch_id: whatever they accept was written by us, so it comes out the same again. */
#include "api/ack_id.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ks_ack_key key = {{1, 2}, 0x64656164, 0};
    ks_view view = ks_view_of(data, size);
    char text[KS_BATCH_ID_MAX + 1];
    struct ks_ack ack;

    if (ks_batch_id_read(&key, view, &ack) == KS_ACK_ID_OK) {
        size_t length = ks_batch_id_write(&key, &ack, text);
        assert(ks_view_equal(ks_view_of(text, length), view));
    }
    if (ks_ack_id_read(&key, view, &ack) == KS_ACK_ID_OK) {
        struct ks_ack_stamp stamp;
        ks_ack_stamp_init(&stamp, &key, ack.session, ack.session_epoch, &ack.runs[0]);
        ks_ack_id_write(&stamp, ack.runs[0].first, text);
        assert(ks_view_equal(ks_view_of(text, KS_ACK_ID_SIZE), view));
    }
    return 0;
}
