// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** The sidecar refused a request, or the consumer cannot be used. */
public class SidecarException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The HTTP status; 0: the error is not an answer. */
    private final int status;
    /** The code of the problem. */
    private final String code;

    SidecarException(int status, String code, String message, Throwable cause) {
        super(message, cause);
        this.status = status;
        this.code = code;
    }

    /** Returns the HTTP status, or 0 if the error is not an answer of the sidecar. */
    public int status() {
        return status;
    }

    /** Returns the code of the problem, for example {@code invalid-argument}, or an empty text. */
    public String code() {
        return code;
    }
}
