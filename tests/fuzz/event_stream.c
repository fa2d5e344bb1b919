/* SPDX-License-Identifier: Apache-2.0 */
/* event_stream.c - any bytes as an event stream: the reader ends and stays within the bytes. The checksums are made
 * right first where the first byte says so, or nothing would come past them.
 */
#include "aws/event_stream.h"
#include "base/digest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_be32(uint8_t *to, uint32_t number)
{
    for (int at = 0; at < 4; at++)
        to[at] = (uint8_t)(number >> (24 - 8 * at));
}

static void mend(uint8_t *bytes, size_t size)
{
    size_t whole = 0;

    if (size < KS_EVENT_PRELUDE_BYTES)
        return;
    put_be32(bytes + 8, ks_crc32(ks_view_of(bytes, 8)));
    if (ks_ok(ks_event_size(ks_view_of(bytes, size), &whole)) && whole <= size)
        put_be32(bytes + whole - 4, ks_crc32(ks_view_of(bytes, whole - 4)));
}

static void check(ks_view message, const struct ks_event *event)
{
    ks_view rest = event->headers;
    struct ks_event_header header;
    uint64_t sum = 0;

    assert(event->headers.data >= message.data);
    assert(event->payload.data + event->payload.size + 4 == message.data + message.size);
    while (rest.size > 0) {
        ks_err err = ks_event_take_header(&rest, &header);
        assert(ks_ok(err));
        assert(header.name.size > 0);
        for (size_t at = 0; at < header.value.size; at++)
            sum += header.value.data[at];
    }
    for (size_t at = 0; at < event->payload.size; at++)
        sum += event->payload.data[at];
    (void)ks_event_text(event, ":event-type");
    assert(sum < UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_event event;
    size_t whole = 0;

    if (size == 0)
        return 0;
    /* Of its own, so that a step beyond it is seen. */
    uint8_t *bytes = malloc(size - 1 == 0 ? 1 : size - 1);
    assert(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 2 == 1)
        mend(bytes, size - 1);
    ks_view view = ks_view_of(bytes, size - 1);
    while (ks_ok(ks_event_size(view, &whole)) && whole > 0 && whole <= view.size) {
        ks_view message = ks_view_of(view.data, whole);
        if (!ks_ok(ks_event_read(message, &event)))
            break;
        check(message, &event);
        view = ks_view_of(view.data + whole, view.size - whole);
    }
    free(bytes);
    return 0;
}
