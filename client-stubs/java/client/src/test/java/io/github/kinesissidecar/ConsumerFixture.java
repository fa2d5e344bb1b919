// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A consumer of a scripted sidecar, and what became of its records. */
abstract class ConsumerFixture {
    final List<Event> events = new CopyOnWriteArrayList<>();
    final List<String> handled = new CopyOnWriteArrayList<>();
    ScriptedSidecar sidecar;
    Consumer consumer;
    Thread runner;
    /** What handlers wait for. It is released at the end of a test that fails, too. */
    final CountDownLatch release = new CountDownLatch(1);
    private int marks;

    @BeforeEach
    void begin() throws IOException {
        sidecar = new ScriptedSidecar();
    }

    @AfterEach
    void end() throws Exception {
        release.countDown();
        consumer.close();
        if (runner != null)
            runner.join();
        sidecar.close();
    }

    void build(Consumer.Builder builder) {
        consumer = builder.onEvent(events::add).shutdownHook(false).build();
    }

    /** Runs the handler in the background. Each record that is handled is noted by its number. */
    void run(Handler handler) {
        runner = new Thread(() -> consumer.run(record -> {
            handled.add(number(record));
            handler.handle(record);
        }));
        runner.start();
    }

    static String number(SidecarRecord record) {
        return record.sequenceNumber().substring(3);
    }

    List<Object> settled(String outcome, String member) {
        return sidecar.settles.stream().flatMap(request -> request.settlements().stream())
                .filter(item -> outcome.equals(item.get("outcome")) && item.containsKey(member))
                .map(item -> item.get(member)).toList();
    }

    void untilSettled(String outcome, String member, String id) throws InterruptedException {
        Eventually.until(outcome + " of " + id, () -> settled(outcome, member).contains(id));
    }

    void untilHandled(String... numbers) throws InterruptedException {
        Eventually.until("handled " + List.of(numbers), () -> handled.equals(List.of(numbers)));
    }

    /** Waits until the consumer has received all that the stream has sent. A barrier without a number has no effect. */
    void untilReceived() throws InterruptedException {
        String mark = "mark " + ++marks;
        sidecar.stream.barrier(mark);
        Eventually.until(mark, () -> events.stream().anyMatch(event -> event.text("barrier").equals(mark)));
    }

    static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
