// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** The outcome of a delivery. EXTEND is not final. */
enum Outcome {
    ACK, RETRY, EXTEND, DEAD_LETTER, DROP,
    /** The sidecar took the record back before a handler began. It is redelivered. */
    RECALLED;

    final String word = name().toLowerCase(java.util.Locale.ROOT);
}
