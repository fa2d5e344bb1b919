// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;

/**
 * An acknowledgement whose caller waits for the checkpoint. It has a connection of its own, because the wait would delay
 * other settlements.
 *
 * @param options the options of the consumer
 * @param state the state of the consumer
 * @param generation the generation of the record's session
 * @param ackId the ack_id of the record
 */
record PersistedAck(Options options, ConsumerState state, long generation, String ackId) {
    private static final long WAIT_MS = 10_000;

    /** Returns true if the checkpoint covers the record. */
    boolean await() {
        String json = "{\"settlements\":[{\"ack_id\":\"" + ackId + "\",\"outcome\":\"ack\"}],\"wait\":\"persisted\","
                + "\"wait_ms\":" + WAIT_MS + "}";
        Backoff backoff = new Backoff();
        try (SettleClient client = new SettleClient(options)) {
            long retryAfterMs;
            do {
                retryAfterMs = 0;
                try {
                    SettleClient.Answer answer = client.settle(json, WAIT_MS + SettleClient.ANSWER_MS);
                    if (answer.refusal() == null)
                        return answer.persisted() && answer.failed().isEmpty();
                    if (answer.refusal().isSessionEnded())
                        return false;
                    if (!answer.refusal().isTemporary())
                        throw answer.refusal().exception();
                    retryAfterMs = answer.refusal().retryAfterMs();
                } catch (IOException unanswered) {
                    // The request is repeated while its session may be there.
                }
            } while (state.awaitRepeat(generation, backoff.next(retryAfterMs)));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        return false;
    }
}
