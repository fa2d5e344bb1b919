// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** Gets the control events of a consumer. Threads of the package call it, so it must return soon. */
@FunctionalInterface
public interface EventListener {
    /** Gets one event. */
    void onEvent(Event event);
}
