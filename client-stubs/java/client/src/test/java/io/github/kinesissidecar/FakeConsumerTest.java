// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.github.kinesissidecar.testing.FakeConsumer;
import io.github.kinesissidecar.testing.FakeRecord;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class FakeConsumerTest {
    private final FakeConsumer consumer = new FakeConsumer();

    private List<String> outcomes() {
        return consumer.records().stream().map(FakeRecord::outcome).toList();
    }

    private void addThree() {
        consumer.add("a", "1");
        consumer.add("a", "2");
        consumer.add("b", "3");
    }

    @Test
    void run_givesTheOutcomesOfItsHandler() {
        addThree();
        consumer.run(record -> {
            if (record.sequenceNumber().equals("2"))
                throw new IllegalStateException("no 2");
            if (record.partitionKey().equals("b"))
                record.deadLetter("no b");
        });
        assertEquals(List.of("ack", "retry", "dead_letter"), outcomes());
        assertEquals("no 2", consumer.records().get(1).reason());
        assertEquals("no b", consumer.records().get(2).reason());
    }

    @Test
    void iteration_acknowledgesWhenTheNextRecordIsAskedFor() {
        addThree();
        for (SidecarRecord record : consumer) {
            if (record.sequenceNumber().equals("1"))
                record.retry(Duration.ofSeconds(1), "later");
            if (record.sequenceNumber().equals("3"))
                break;
        }
        assertEquals(List.of("retry", "ack", ""), outcomes());
        assertEquals(Duration.ofSeconds(1), consumer.records().get(0).delay());
    }

    @Test
    void recordOfALoopThatWasLeft_isHandedOutByTheNextLoop() {
        addThree();
        consumer.iterator().next();
        consumer.batches(2, Duration.ZERO).iterator().next().records().get(0).drop();
        consumer.forEach(record -> { });
        assertEquals(List.of("drop", "ack", "ack"), outcomes());
    }

    @Test
    void batches_haveTheMaximumOfRecords() {
        addThree();
        var batches = consumer.batches(2, Duration.ZERO).iterator();
        assertEquals(2, batches.next().size());
        assertEquals(1, batches.next().size());
        assertEquals(List.of("ack", "ack", ""), outcomes());
        assertFalse(batches.hasNext());
        assertEquals(List.of("ack", "ack", "ack"), outcomes());
    }

    @Test
    void stop_endsTheRun() {
        addThree();
        consumer.run(record -> consumer.stop());
        assertEquals(List.of("ack", "", ""), outcomes());
    }
}
