// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.Map;

/**
 * An answer that is not 200.
 *
 * @param status the HTTP status
 * @param code the last part of the problem's type, for example session-fenced
 * @param detail the sentence of the sidecar
 * @param retryAfterMs the least wait before the next try
 */
record Refusal(int status, String code, String detail, long retryAfterMs) {
    static Refusal of(int status, long retryAfterMs, String body) {
        Map<?, ?> problem = Map.of();
        try {
            if (Json.parse(body) instanceof Map<?, ?> members)
                problem = members;
        } catch (IllegalArgumentException notJson) {
            // Another server, or an answer that the sidecar's HTTP library makes. The status says enough.
        }
        String type = text(problem, "type");
        String code = type.isEmpty() ? text(problem, "code") : type.substring(type.lastIndexOf(':') + 1);
        String detail = text(problem, "detail");
        return new Refusal(status, code, detail.isEmpty() ? "refused" : detail, retryAfterMs);
    }

    private static String text(Map<?, ?> members, String name) {
        return members.get(name) instanceof String text ? text : "";
    }

    /** Returns true if the same request may succeed later. */
    boolean isTemporary() {
        return switch (status) {
            case 429, 500, 502, 503, 504 -> true;
            default -> false;
        };
    }

    boolean isOrderingConflict() {
        return status == 409 && code.equals("ordering-conflict");
    }

    boolean isSessionEnded() {
        return status == 409 || status == 410;
    }

    String sentence() {
        return status + " " + (code.isEmpty() ? "" : code + ": ") + detail;
    }

    SidecarException exception() {
        return new SidecarException(status, code, sentence(), null);
    }
}
