// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** The records that are delivered in order. All sessions of a subscription have the same ordering. */
public enum Ordering {
    /** All records of a shard. */
    SHARD,
    /** The records of a lane: the partition keys of a shard are divided among its lanes. */
    KEY,
    /** None. */
    NONE;

    String word() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
