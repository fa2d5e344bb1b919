// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * One item of a settle request.
 *
 * @param records the records whose outcome it is; none if it extends ack deadlines
 * @param ofBatch true if it names a batch
 * @param id the ack_id or the batch_id
 * @param outcome the outcome
 * @param delayMs the delay of a retry or of an extension; 0: none
 * @param reason the reason; empty: none
 * @param hold the hold of a retry; null: none
 */
record Settlement(List<Delivery> records, boolean ofBatch, String id, Outcome outcome, long delayMs, String reason,
        Hold hold) {
    /** The sidecar keeps 1000 bytes of a reason. */
    private static final int MAX_REASON = 1000;

    /** Makes the item of a record that has an outcome. */
    static Settlement of(Delivery record, Hold hold) {
        return new Settlement(List.of(record), false, record.ackId(), record.outcome, record.delayMs,
                shorten(record.reason), hold);
    }

    /** Makes the item of a batch. `records`: those that are in no request yet. */
    static Settlement ofAcknowledged(DeliveredBatch batch, List<Delivery> records) {
        return new Settlement(records, true, batch.id, Outcome.ACK, 0, "", null);
    }

    static Settlement extending(DeliveredBatch batch, long delayMs) {
        return new Settlement(List.of(), true, batch.id, Outcome.EXTEND, delayMs, "", null);
    }

    static Settlement extending(Delivery record, long delayMs) {
        return new Settlement(List.of(), false, record.ackId(), Outcome.EXTEND, delayMs, "", null);
    }

    void write(StringBuilder json) {
        json.append(ofBatch ? "{\"batch_id\":\"" : "{\"ack_id\":\"").append(id)
                .append("\",\"outcome\":\"").append(outcome.word).append('"');
        if (delayMs > 0)
            json.append(",\"delay_ms\":").append(delayMs);
        if (!reason.isEmpty()) {
            json.append(",\"reason\":");
            Json.quote(json, reason);
        }
        json.append('}');
    }

    private static String shorten(String reason) {
        if (reason == null || reason.isEmpty())
            return "";
        String text = reason.length() > MAX_REASON ? reason.substring(0, MAX_REASON) : reason;
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= MAX_REASON)
            return text;
        int end = MAX_REASON;
        while ((bytes[end] & 0xc0) == 0x80)
            end--;
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }
}
