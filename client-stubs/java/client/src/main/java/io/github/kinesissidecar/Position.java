// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

/** The identity of a record, which all its deliveries share. */
record Position(String shardId, String sequenceNumber, long subSequenceNumber, boolean redriven) { }
