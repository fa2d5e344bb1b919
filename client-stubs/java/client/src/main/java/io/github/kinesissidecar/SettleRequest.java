// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * One settle request.
 *
 * @param settlements up to 1,000 items
 * @param generation the generation of the session that all items belong to
 * @param barrier the number of its barrier; 0: none
 * @param extension true if it extends ack deadlines, so that failures of its items are ignored
 */
record SettleRequest(List<Settlement> settlements, long generation, long barrier, boolean extension) {
    /** Reasons of a refusal: the sidecar redelivers the record. */
    private static final Set<Object> REDELIVERED = Set.of("EXPIRED", "FENCED");

    String json() {
        StringBuilder json = new StringBuilder(settlements.size() * 110 + 64).append("{\"settlements\":[");
        String comma = "";
        for (Settlement settlement : settlements) {
            json.append(comma);
            settlement.write(json);
            comma = ",";
        }
        json.append(']');
        if (barrier > 0)
            json.append(",\"barrier\":\"").append(barrier).append('"');
        return json.append('}').toString();
    }

    /**
     * Returns the items that failed for good. A retry counts as accepted if its record is redelivered: the sidecar took
     * an earlier copy, the ack deadline has passed, or the lease was lost.
     */
    List<Map<String, Object>> refusals(List<Map<String, Object>> failed) {
        if (failed.isEmpty())
            return failed;
        Set<Object> retries = settlements.stream().filter(item -> item.outcome() == Outcome.RETRY)
                .map(Settlement::id).collect(Collectors.toSet());
        return failed.stream().filter(item -> !retries.contains(item.get("ack_id"))
                || !REDELIVERED.contains(String.valueOf(item.get("reason")))).toList();
    }

    /** Returns the records whose outcomes are in it. */
    Stream<Delivery> records() {
        return settlements.stream().flatMap(item -> item.records().stream());
    }
}
