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

    private void send(SettleClient client, SettleRequest request) throws InterruptedException {
        if (request.extension()) {
            extend(client, request);
            return;
        }
        SettleClient.Answer answer = client.settle(request, state);
        if (answer != null && answer.refusal() == null) {
            List<Map<String, Object>> refused = request.refusals(answer.failed());
            state.answered(request, reasons(refused));
            refused.forEach(item -> options.listener.onEvent(new Event("settle_failed", item)));
            return;
        }
        if (answer != null && !answer.refusal().isSessionEnded())
            state.fail(answer.refusal().exception());
        state.expired(request);
    }

    /** Returns the reasons of items that were refused, by their ids. */
    private static Map<Object, Object> reasons(List<Map<String, Object>> refused) {
        return refused.stream().collect(Collectors.toMap(item -> item.get("ack_id"),
                item -> String.valueOf(item.get("reason")), (first, again) -> first));
    }

    /** A record whose extension fails is redelivered: there is nothing to do. */
    private static void extend(SettleClient client, SettleRequest request) {
        try {
            client.extend(request);
        } catch (IOException unanswered) {
            // The next extension is sent in a third of the ack deadline.
        }
    }
}
