// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
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

    private byte[] buffer = new byte[BUFFER];
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
        try (HttpConnection open = new HttpConnection(options.address)) {
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
        int message = 0;
        while (true) {
            long length = 0;
            int at = message;
            int shift = 0;
            while (at < end && buffer[at] < 0 && shift < 28) {
                length |= (long) (buffer[at++] & 0x7f) << shift;
                shift += 7;
            }
            if (at == end)
                return keepRest(message, 0, items);
            length |= (long) buffer[at++] << shift;
            if (length < 0 || length > MAX_MESSAGE)
                throw new IOException("a message of the stream is larger than " + MAX_MESSAGE + " bytes");
            if (length > end - at)
                return keepRest(message, (int) length + at - message, items);
            items.add(decoder.decode(buffer, at, at + (int) length));
            message = at + (int) length;
        }
    }

    /** Moves the bytes of a message that is not whole to the begin of the buffer, with room for all of it. */
    private List<Object> keepRest(int from, int needed, List<Object> items) {
        byte[] target = needed > buffer.length ? new byte[needed]
                : needed <= BUFFER && buffer.length > BUFFER && end - from <= BUFFER ? new byte[BUFFER] : buffer;
        System.arraycopy(buffer, from, target, 0, end - from);
        buffer = target;
        end -= from;
        return items;
    }
}
