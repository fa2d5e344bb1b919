// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.Map;

/**
 * A control event of the stream, or one of the package: {@code disconnected} and {@code settle_failed}.
 *
 * @param type the type, for example {@code session}, {@code heartbeat} or {@code lease_lost}; {@code unknown} for an
 *     event that this version of the package does not know
 * @param members the members of the event by their names in the API: texts, numbers, booleans
 */
public record Event(String type, Map<String, Object> members) {
    /** Returns a member as text, or an empty text if the event has no such member. */
    public String text(String name) {
        return String.valueOf(members.getOrDefault(name, ""));
    }

    /** Returns a member as a number, or 0 if the event has no such number. */
    public long number(String name) {
        return members.get(name) instanceof Number number ? number.longValue() : 0;
    }
}
