// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/** Sends requests, one at a time, over a connection that is kept. One thread uses it. */
final class SettleClient implements AutoCloseable {
    private static final long PERSISTED_MS = 10_000;
    private static final String SETTLE = "/v1/records/settle";

    /**
     * An answer.
     *
     * @param refusal null if the status is 200
     * @param failed the items that were refused one by one
     * @param persisted whether the checkpoints cover all that was accepted
     */
    record Answer(Refusal refusal, List<Map<String, Object>> failed, boolean persisted) { }

    private final Options options;
    private final ByteBuffer buffer = ByteBuffer.allocate(16 << 10);
    private HttpConnection connection;

    SettleClient(Options options) {
        this.options = options;
    }

    /** Sends a request once. */
    void extend(SettleRequest request) throws IOException {
        exchange("POST", SETTLE, request.json(), options.answerMs);
    }

    /** Sends a request until it is answered. Returns null if its session has ended or the consumer closes before. */
    Answer settle(SettleRequest request, ConsumerState state) throws InterruptedException {
        return settle(request.json(), options.answerMs, state, request.generation());
    }

    /** Acknowledges a record, and waits for its checkpoint. Returns whether the checkpoint covers the record. */
    boolean ackPersisted(String ackId, ConsumerState state, long generation) throws InterruptedException {
        String json = "{\"settlements\":[{\"ack_id\":\"" + ackId + "\",\"outcome\":\"ack\"}],\"wait\":\"persisted\","
                + "\"wait_ms\":" + PERSISTED_MS + "}";
        Answer answer = settle(json, PERSISTED_MS + options.answerMs, state, generation);
        if (answer == null || answer.refusal() == null)
            return answer != null && answer.persisted() && answer.failed().isEmpty();
        if (answer.refusal().isSessionEnded())
            return false;
        throw answer.refusal().exception();
    }

    private Answer settle(String json, long timeoutMs, ConsumerState state, long generation)
            throws InterruptedException {
        Backoff backoff = new Backoff();
        long retryAfterMs;
        do {
            retryAfterMs = 0;
            try {
                Answer answer = exchange("POST", SETTLE, json, timeoutMs);
                if (answer.refusal() == null || !answer.refusal().isTemporary())
                    return answer;
                retryAfterMs = answer.refusal().retryAfterMs();
            } catch (IOException unanswered) {
                // The stream reader reports a sidecar that is away.
            }
        } while (state.awaitRepeat(generation, backoff.next(retryAfterMs)));
        return null;
    }

    void deleteSession() throws IOException {
        exchange("DELETE", options.sessionPath(), "", options.answerMs);
    }

    /** A kept connection may have been closed while it was idle. Then the request is sent again: settling is idempotent. */
    private Answer exchange(String method, String path, String json, long timeoutMs) throws IOException {
        if (connection != null) {
            try {
                return exchangeOnce(method, path, json, timeoutMs);
            } catch (java.net.SocketTimeoutException slow) {
                close();
                throw slow;
            } catch (IOException lost) {
                close();
            }
        }
        try {
            connection = new HttpConnection(options.address, buffer);
            return exchangeOnce(method, path, json, timeoutMs);
        } catch (IOException failure) {
            close();
            throw failure;
        }
    }

    private Answer exchangeOnce(String method, String path, String json, long timeoutMs) throws IOException {
        connection.timeout(timeoutMs);
        connection.request(method, path, options.tokenFile, json);
        Answer answer = connection.status() == 200 ? read(connection.readText())
                : new Answer(connection.readRefusal(), List.of(), false);
        if (!connection.isKept())
            close();
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static Answer read(String body) throws IOException {
        /* Most answers report no more than this, and parsing them costs time. */
        if (body.contains("\"failed\":[],\"persisted\":false"))
            return new Answer(null, List.of(), false);
        try {
            Map<String, Object> answer = (Map<String, Object>) Json.parse(body);
            List<Map<String, Object>> failed = (List<Map<String, Object>>) answer.getOrDefault("failed", List.of());
            return new Answer(null, failed, Boolean.TRUE.equals(answer.get("persisted")));
        } catch (IllegalArgumentException | ClassCastException malformed) {
            throw new IOException("the answer is malformed", malformed);
        }
    }

    @Override
    public void close() {
        if (connection != null)
            connection.close();
        connection = null;
    }
}
