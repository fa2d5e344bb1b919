// SPDX-License-Identifier: Apache-2.0
// Members of a message that was checked before, read when they are asked for. Position 0: the member is absent.

const EMPTY = Buffer.alloc(0);

/** Where a varint ends that was read last. */
let end = 0;

export function varintAt(buffer: Buffer, at: number): number {
    if (at === 0) return 0;
    let value = 0;
    let scale = 1;
    for (end = at; ; scale *= 128) {
        const byte = buffer[end++]!;
        value += (byte & 127) * scale;
        if (byte < 128) return value;
    }
}

/** Returns a view of a length-delimited member. */
export function bytesAt(buffer: Buffer, at: number): Buffer {
    if (at === 0) return EMPTY;
    const length = varintAt(buffer, at);
    return buffer.subarray(end, end + length);
}

export function textAt(buffer: Buffer, at: number): string {
    if (at === 0) return "";
    const length = varintAt(buffer, at);
    return buffer.toString("utf8", end, end + length);
}
