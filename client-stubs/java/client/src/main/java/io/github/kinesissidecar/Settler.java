// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The thread that sends settlements and extensions, and closes the session at the end. */
final class Settler implements Runnable {
    private final Options options;
    private final ConsumerState state;

    Settler(Options options, ConsumerState state) {
        this.options = options;
        this.state = state;
    }

    @Override
    public void run() {
        try (SettleClient client = new SettleClient(options)) {
            for (List<SettleRequest> requests; (requests = state.awaitRequests()) != null;)
                for (SettleRequest request : requests)
                    send(client, request);
            if (state.hasSession())
                client.deleteSession();
        } catch (IOException unreachable) {
            // The sidecar ends the session by itself, 5 s after its connection.
        } catch (InterruptedException | RuntimeException failure) {
            state.fail(new SidecarException(0, "", "cannot settle: " + failure, failure));
        }
    }

    /** Sends a request until it is answered, its session has ended, or the consumer closes. */
    private void send(SettleClient client, SettleRequest request) throws InterruptedException {
        Backoff backoff = new Backoff();
        while (true) {
            long retryAfterMs = 0;
            try {
                SettleClient.Answer answer = client.settle(request.json(), SettleClient.ANSWER_MS);
                if (answer.refusal() == null) {
                    accept(request, answer.failed());
                    return;
                }
                if (!answer.refusal().isTemporary()) {
                    refuse(request, answer.refusal());
                    return;
                }
                retryAfterMs = answer.refusal().retryAfterMs();
            } catch (IOException unanswered) {
                // The stream reader reports a sidecar that is away.
            }
            if (request.extension() || !state.awaitRepeat(request.generation(), backoff.next(retryAfterMs)))
                break;
        }
        state.expired(request);
    }

    private void accept(SettleRequest request, List<Map<String, Object>> failed) {
        /* An extension that fails is about a record that is redelivered: there is nothing to do. */
        if (request.extension())
            return;
        state.answered(request, failed.stream().map(item -> item.get("ack_id")).collect(Collectors.toSet()));
        failed.forEach(item -> options.listener.onEvent(new Event("settle_failed", item)));
    }

    private void refuse(SettleRequest request, Refusal refusal) {
        if (!refusal.isSessionEnded())
            state.fail(refusal.exception());
        state.expired(request);
    }
}
