// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** Another process opened a stream with the same client id. This consumer does not connect again. */
public final class SessionTakenOverException extends SidecarException {
    private static final long serialVersionUID = 1;

    SessionTakenOverException(String clientId) {
        super(0, "taken-over", "another consumer took over the client_id " + clientId
                + "; give each process a client_id of its own", null);
    }
}
