// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.Arrays;

/** A retry whose effect on the later records of its lane is not known yet. The lock of the state guards it. */
final class Hold {
    final Delivery failed;
    /** The barrier of its request; 0: it is in no request yet, or its record was redelivered. */
    long barrier;
    /** The answer of the sidecar; null: none yet. */
    Boolean accepted;

    Hold(Delivery failed) {
        this.failed = failed;
    }

    /**
     * Notes the answer. `reason`: why the retry was refused; null: it was accepted. An id that is unknown is of a
     * sidecar that was restarted. It may have accepted an earlier copy of the request, so the hold stays until the next
     * session.
     */
    void judge(Object reason) {
        if (!"UNKNOWN".equals(reason))
            accepted = reason == null;
    }

    /** Returns true if the answer and the barrier are there. */
    boolean isResolved(long barrierSeen) {
        return accepted != null && barrierSeen >= barrier;
    }

    /** Returns true if the sidecar took the record back together with the failed one. */
    boolean takesBack(Delivery record) {
        return mayTakeBack(record.leaseEpoch, record.barrierSeen) && record.isAfter(failed);
    }

    /** Returns true if the sidecar took later records of this lease epoch back that follow this barrier. */
    boolean mayTakeBack(long epoch, long barrierSeen) {
        return accepted && barrierSeen < barrier && epoch == failed.leaseEpoch;
    }

    /** Returns true if a record of the lane is the failed one. */
    boolean isOf(Delivery record) {
        return Arrays.equals(record.sequenceNumber, failed.sequenceNumber)
                && record.subSequenceNumber == failed.subSequenceNumber;
    }
}
