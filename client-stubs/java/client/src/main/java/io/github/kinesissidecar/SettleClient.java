// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Sends requests, one at a time, over a connection that is kept. One thread uses it. */
final class SettleClient implements AutoCloseable {
    static final long ANSWER_MS = 5_000;
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
    private HttpConnection connection;

    SettleClient(Options options) {
        this.options = options;
    }

    Answer settle(String json, long timeoutMs) throws IOException {
        return exchange("POST", SETTLE, json, timeoutMs);
    }

    void deleteSession() throws IOException {
        exchange("DELETE", options.sessionPath(), "", ANSWER_MS);
    }

    /** A kept connection may have been closed while it was idle. Then the request is sent again: it may be repeated. */
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
            connection = new HttpConnection(options.address);
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
