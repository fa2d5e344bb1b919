// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Against the binary. */
@Timeout(180)
class RealSidecarTest {
    @TempDir
    Path directory;

    private final List<String> handled = new CopyOnWriteArrayList<>();
    private final List<Thread> runners = new ArrayList<>();
    private final List<Consumer> consumers = new ArrayList<>();
    /** What handlers wait for. It is released at the end of a test that fails, too. */
    private final CountDownLatch release = new CountDownLatch(1);
    private RealSidecar sidecar;

    @AfterEach
    void end() throws Exception {
        release.countDown();
        consumers.forEach(Consumer::close);
        for (Thread runner : runners)
            runner.join();
        if (sidecar != null)
            sidecar.close();
    }

    private Consumer build(Consumer.Builder builder) {
        Consumer consumer = builder.build();
        consumers.add(consumer);
        return consumer;
    }

    /** Runs the handler in the background. Each record that is handled is noted by its data and its attempt. */
    private Thread run(Consumer consumer, Handler handler) {
        Thread runner = new Thread(() -> consumer.run(record -> {
            handled.add(text(record) + " " + record.attempt());
            handler.handle(record);
        }));
        runners.add(runner);
        runner.start();
        return runner;
    }

    private static String text(SidecarRecord record) {
        return new String(record.data(), java.nio.charset.StandardCharsets.UTF_8);
    }

    private void untilSettled(int count) throws InterruptedException {
        Eventually.until(count + " records are settled", () -> sidecar.hasSettled(count));
    }

    @Test
    void outcomes_reachTheSidecar() throws Exception {
        sidecar = new RealSidecar(directory, "--retry-backoff-ms", "50");
        for (String order : List.of("ack", "fail", "retry", "dead_letter", "drop"))
            sidecar.put(order, order);
        run(build(sidecar.consumer("outcomes").concurrency(4)), record -> {
            switch (text(record)) {
                case "fail" -> {
                    if (record.attempt() < 3)
                        throw new IllegalStateException("fail");
                }
                case "retry" -> {
                    if (record.attempt() == 1)
                        record.retry(Duration.ofMillis(20), "again");
                }
                case "dead_letter" -> record.deadLetter("asked");
                case "drop" -> record.drop();
                default -> { }
            }
        });
        untilSettled(5);
        assertEquals(List.of("ack 1", "dead_letter 1", "drop 1", "fail 1", "fail 2", "fail 3", "retry 1", "retry 2"),
                handled.stream().sorted().toList());
        Map<String, Object> letter = sidecar.deadLetters().get(0);
        assertEquals("asked", letter.get("reason"));
        assertEquals("dead_letter", letter.get("partition_key"));
    }

    @Test
    void ackPersisted_waitsForTheCheckpoint() throws Exception {
        sidecar = new RealSidecar(directory, "--checkpoint-interval-ms", "100");
        sidecar.put("k", "1");
        Iterator<SidecarRecord> records = build(sidecar.consumer("persisted")).iterator();
        assertTrue(records.next().ackPersisted());
    }

    @Test
    void keys_keepTheirOrder_whenHandlersFail() throws Exception {
        sidecar = new RealSidecar(directory, "--retry-backoff-ms", "20");
        List<Map.Entry<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 400; i++)
            records.add(Map.entry("key" + i % 20, Integer.toString(i)));
        sidecar.put(records);
        Map<String, List<Integer>> done = new ConcurrentHashMap<>();
        Map<String, AtomicInteger> running = new ConcurrentHashMap<>();
        AtomicInteger overlaps = new AtomicInteger();
        run(build(sidecar.consumer("order").concurrency(8)), record -> {
            AtomicInteger ofKey = running.computeIfAbsent(record.partitionKey(), key -> new AtomicInteger());
            if (ofKey.incrementAndGet() > 1)
                overlaps.incrementAndGet();
            try {
                int number = Integer.parseInt(text(record));
                if (number % 17 == 3 && record.attempt() == 1)
                    throw new IllegalStateException("fail " + number);
                done.computeIfAbsent(record.partitionKey(), key -> new CopyOnWriteArrayList<>()).add(number);
            } finally {
                ofKey.decrementAndGet();
            }
        });
        untilSettled(400);
        for (int key = 0; key < 20; key++) {
            int first = key;
            assertEquals(IntStream.range(0, 20).mapToObj(i -> first + i * 20).toList(), done.get("key" + key));
        }
        assertEquals(0, overlaps.get());
    }

    @Test
    void slowHandler_beyondTheAckDeadline_handlesItsRecordOnce() throws Exception {
        sidecar = new RealSidecar(directory);
        sidecar.put("k", "slow");
        sidecar.put("k", "waits");
        run(build(sidecar.consumer("slow").ackDeadline(Duration.ofSeconds(1))), record -> {
            if (text(record).equals("slow"))
                Thread.sleep(3000);
        });
        untilSettled(2);
        assertEquals(List.of("slow 1", "waits 1"), handled);
    }

    @Test
    void loop_thatIsLeft_givesTheRecordBack() throws Exception {
        sidecar = new RealSidecar(directory);
        for (int i = 0; i < 5; i++)
            sidecar.put("k", Integer.toString(i));
        try (Consumer first = build(sidecar.consumer("loop"))) {
            for (SidecarRecord record : first)
                if (text(record).equals("2"))
                    break;
        }
        List<String> rest = new ArrayList<>();
        for (SidecarRecord record : build(sidecar.consumer("loop"))) {
            rest.add(text(record));
            if (rest.size() == 3)
                break;
        }
        assertEquals(List.of("2", "3", "4"), rest);
    }

    @Test
    void batches_areAcknowledged_orRetried() throws Exception {
        sidecar = new RealSidecar(directory, "--retry-backoff-ms", "20", "--local-shards", "1");
        for (int i = 0; i < 10; i++)
            sidecar.put("k", Integer.toString(i));
        Consumer consumer = build(sidecar.consumer("batches"));
        List<String> done = new ArrayList<>();
        boolean retried = false;
        for (Batch batch : consumer.batches(4, Duration.ofMillis(500))) {
            if (!retried) {
                batch.retry();
                retried = true;
                continue;
            }
            batch.forEach(record -> done.add(text(record)));
            batch.ack();
            if (done.size() >= 10)
                break;
        }
        assertEquals(IntStream.range(0, 10).mapToObj(Integer::toString).toList(), done);
        untilSettled(10);
    }

    @Test
    void stop_whileHandlersRun_acknowledgesThem() throws Exception {
        sidecar = new RealSidecar(directory);
        for (int i = 0; i < 20; i++)
            sidecar.put("key" + i, Integer.toString(i));
        Consumer consumer = build(sidecar.consumer("stop").concurrency(3));
        Thread runner = run(consumer, record -> release.await());
        Eventually.until("three handlers run", () -> handled.size() == 3);
        consumer.stop();
        release.countDown();
        runner.join();
        assertEquals(3, handled.size());
        untilSettled(3);
    }

    @Test
    void sidecar_killedAndStartedAgain_redeliversWhatIsUnsettled() throws Exception {
        sidecar = new RealSidecar(directory, "--checkpoint-interval-ms", "100");
        List<Event> events = new CopyOnWriteArrayList<>();
        for (int i = 0; i < 10; i++)
            sidecar.put("key" + i, Integer.toString(i));
        run(build(sidecar.consumer("kill").concurrency(2).onEvent(events::add)), record -> release.await());
        Eventually.until("two handlers run", () -> handled.size() == 2);
        List<String> running = List.copyOf(handled);
        sidecar.kill();
        Eventually.until("the connection is lost",
                () -> events.stream().anyMatch(e -> e.type().equals("disconnected")));
        sidecar.start();
        Eventually.until("the second session has all records",
                () -> events.stream().filter(e -> e.type().equals("session")).count() == 2 && inFlight() == 10);
        release.countDown();
        untilSettled(10);
        assertEquals(10, handled.stream().distinct().count());
        assertEquals(10, handled.size(), "the handlers that ran settled the redeliveries of " + running);
    }

    private long inFlight() {
        return ((List<?>) sidecar.get("/v1/shards").get("shards")).stream()
                .mapToLong(shard -> ((Number) ((Map<?, ?>) shard).get("in_flight")).longValue()).sum();
    }

    @Test
    void unixSocket_withAToken_works() throws Exception {
        Path token = Files.writeString(directory.resolve("token"), "secret-of-the-test-000000\n");
        Files.setPosixFilePermissions(token, java.nio.file.attribute.PosixFilePermissions.fromString("rw-------"));
        sidecar = new RealSidecar(directory, "unix:" + directory.resolve("api.sock"), token,
                "--token-file", token.toString());
        sidecar.put("k", "1");
        Consumer consumer = build(sidecar.consumer("unix").tokenFile(token));
        run(consumer, record -> { });
        untilSettled(1);
        Consumer without = build(sidecar.consumer("other"));
        assertEquals(401, assertThrows(SidecarException.class, () -> without.run(record -> { })).status());
    }

    @Test
    void twoConsumers_withOneClientId_takeOver() throws Exception {
        sidecar = new RealSidecar(directory);
        sidecar.put("k", "1");
        Consumer first = build(sidecar.consumer("same"));
        Iterator<SidecarRecord> records = first.iterator();
        records.next();
        Consumer second = build(sidecar.consumer("same"));
        run(second, record -> { });
        assertThrows(SessionTakenOverException.class, records::hasNext);
        first.close();
        untilSettled(1);
        sidecar.put("k", "2");
        untilSettled(2);
    }
}
