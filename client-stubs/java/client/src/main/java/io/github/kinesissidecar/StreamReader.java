// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The thread that reads the stream, and connects again when the connection is lost. */
final class StreamReader implements Runnable {
    private static final int BUFFER = 256 << 10;
    /** A record of 10 MiB and what belongs to it fit. */
    private static final int MAX_MESSAGE = 32 << 20;
    /** Longer than a sidecar looks for a shard that it does not know. */
    private static final long OPEN_MS = 30_000;
    private static final int MISSED_HEARTBEATS = 3;

    private final Options options;
    private final ConsumerState state;
    private final EventDecoder decoder;
    private final Backoff backoff = new Backoff();
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile HttpConnection connection;

    private final ByteBuffer received = ByteBuffer.allocateDirect(BUFFER);
    /** The body from the first message that is not whole. */
    private byte[] buffer = new byte[BUFFER];
    private int at;
    private int end;

    StreamReader(Options options, ConsumerState state) {
        this.options = options;
        this.state = state;
        this.decoder = new EventDecoder(state);
    }

    @Override
    public void run() {
        try {
            while (!isClosed())
                if (!connect())
                    return;
        } catch (InterruptedException | RuntimeException failure) {
            state.fail(failure instanceof SidecarException known ? known
                    : new SidecarException(0, "", "cannot read the stream: " + failure, failure));
        }
    }

    /** Ends the thread. */
    void close() {
        closed.countDown();
        HttpConnection open = connection;
        if (open != null)
            open.close();
    }

    private boolean isClosed() {
        return closed.getCount() == 0;
    }

    /** Reads one connection to its end. Returns false if there is to be no other one. */
    private boolean connect() throws InterruptedException {
        long retryAfterMs = 0;
        String reason;
        try (HttpConnection open = new HttpConnection(options.address, received)) {
            connection = open;
            open.timeout(OPEN_MS);
            open.request("GET", options.streamPath(), options.tokenFile, null);
            if (open.status() == 200) {
                read(open);
                reason = "the sidecar ended the stream";
            } else {
                Refusal refusal = open.readRefusal();
                if (!refusal.isTemporary() && !refusal.isOrderingConflict())
                    throw refusal.exception();
                retryAfterMs = refusal.retryAfterMs();
                reason = refusal.sentence();
            }
        } catch (IOException lost) {
            reason = lost.getMessage() != null ? lost.getMessage() : lost.toString();
        }
        if (isClosed() || state.isClosing())
            return false;
        state.disconnected();
        long pause = backoff.next(retryAfterMs);
        options.listener.onEvent(new Event("disconnected", Map.of("reason", reason, "retry_in_ms", pause)));
        return !closed.await(pause, TimeUnit.MILLISECONDS);
    }

    private void read(HttpConnection open) throws IOException {
        end = 0;
        for (int count; (count = open.readBody(buffer, end, buffer.length - end)) >= 0;) {
            end += count;
            List<Object> items = decode();
            state.apply(items);
            for (Object item : items)
                if (item instanceof Event event)
                    handle(event, open);
        }
    }

    private void handle(Event event, HttpConnection open) {
        if (event.type().equals("session")) {
            open.timeout(event.number("heartbeat_ms") * MISSED_HEARTBEATS + 1000);
            backoff.reset();
        }
        options.listener.onEvent(event);
        if (event.type().equals("ended") && event.text("reason").equals("taken_over"))
            throw new SessionTakenOverException(options.clientId);
    }

    /** Decodes all messages that are whole. Each has its length before it. */
    private List<Object> decode() throws IOException {
        List<Object> items = new ArrayList<>();
        int begin = 0;
        long length = readLength(begin);
        while (length >= 0 && length <= end - at) {
            begin = at + (int) length;
            items.add(decoder.decode(buffer, at, begin));
            length = readLength(begin);
        }
        keepRest(begin, length < 0 ? 0 : at + (int) length - begin);
        return items;
    }

    /** Reads the length before a message, and moves `at` behind it. Returns -1 if not all of the length is here. */
    private long readLength(int begin) throws IOException {
        long length = 0;
        at = begin;
        for (int shift = 0; at < end; shift += 7) {
            byte b = buffer[at++];
            length |= (long) (b & 0x7f) << shift;
            if (length > MAX_MESSAGE || shift > 28)
                throw new IOException("a message of the stream is larger than " + MAX_MESSAGE + " bytes");
            if (b >= 0)
                return length;
        }
        return -1;
    }

    /** Moves the bytes of a message that is not whole to the begin of the buffer, with room for all of it. */
    private void keepRest(int from, int needed) {
        byte[] target = needed > buffer.length ? new byte[needed]
                : needed <= BUFFER && buffer.length > BUFFER && end - from <= BUFFER ? new byte[BUFFER] : buffer;
        System.arraycopy(buffer, from, target, 0, end - from);
        buffer = target;
        end -= from;
    }
}
