// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** The app's code for one record. */
@FunctionalInterface
public interface Handler {
    /**
     * Handles one record. A normal return acknowledges the record. An exception retries it, with the message of the
     * exception as the reason.
     */
    void handle(SidecarRecord record) throws Exception;
}
