// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import kinesis_sidecar.v1.SessionEnd;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The stream in trouble. */
class ConnectionTroubleTest {
    private final List<Event> events = new CopyOnWriteArrayList<>();
    private ScriptedSidecar sidecar;

    @BeforeEach
    void begin() throws IOException {
        sidecar = new ScriptedSidecar();
    }

    @AfterEach
    void end() throws IOException {
        sidecar.close();
    }

    private Consumer.Builder consumer() {
        return sidecar.consumer().onEvent(events::add);
    }

    private List<Event> events(String type) {
        return events.stream().filter(event -> event.type().equals(type)).toList();
    }

    /** Plays one connection, then one that delivers record 1. Returns after the record was handed out. */
    private void expectRecordAfter(ScriptedSidecar.Script trouble) {
        sidecar.scripts.add(trouble);
        sidecar.deliver("b", 1);
        try (Consumer consumer = consumer().build()) {
            assertEquals("1001", consumer.iterator().next().sequenceNumber());
        }
        assertEquals(2, sidecar.streams.size());
        assertEquals(1, events("disconnected").size());
        assertTrue(sidecar.streams.get(1).path().startsWith("/v1/records/stream?client_id=test"));
    }

    private String reason() {
        return events("disconnected").get(0).text("reason");
    }

    @Test
    void stream_refusedWith401_endsTheIteration() {
        sidecar.scripts.add(open -> open.answer(ScriptedSidecar.problem(401, "unauthenticated", "")));
        try (Consumer consumer = consumer().build()) {
            Iterator<SidecarRecord> records = consumer.iterator();
            SidecarException refusal = assertThrows(SidecarException.class, records::hasNext);
            assertEquals(401, refusal.status());
            assertEquals("unauthenticated", refusal.code());
            assertEquals("401 unauthenticated: the sentence", refusal.getMessage());
        }
    }

    @Test
    void stream_refusedWith400_endsTheRun() {
        sidecar.scripts.add(open -> open.answer(ScriptedSidecar.problem(400, "invalid-argument", "")));
        try (Consumer consumer = consumer().concurrency(4).build()) {
            assertEquals(400, assertThrows(SidecarException.class, () -> consumer.run(record -> { })).status());
        }
        assertEquals(0, sidecar.deletes.get());
    }

    @Test
    void stream_withOrderingConflict_connectsAgain() {
        expectRecordAfter(open -> open.answer(ScriptedSidecar.problem(409, "ordering-conflict", "")));
        assertEquals("409 ordering-conflict: the sentence", reason());
    }

    @Test
    void stream_refusedWith503_waitsForRetryAfter() {
        expectRecordAfter(open -> open.answer(ScriptedSidecar.problem(503, "unavailable", "Retry-After: 1\r\n")));
        assertTrue(events("disconnected").get(0).number("retry_in_ms") >= 1000);
    }

    @Test
    void stream_refusedWith429_connectsAgain() {
        expectRecordAfter(open -> open.answer(ScriptedSidecar.problem(429, "resource-exhausted", "")));
    }

    @Test
    void stream_thatAnotherServerAnswers_connectsAgain() {
        expectRecordAfter(open -> open.answer("SSH-2.0-OpenSSH\r\n"));
        assertEquals("the answer is not HTTP/1.1", reason());
    }

    @Test
    void connection_dropped_connectsAgain() {
        expectRecordAfter(ScriptedSidecar.Stream::begin);
        assertEquals("the sidecar closed the connection", reason());
    }

    @Test
    void connection_silentForThreeHeartbeats_connectsAgain() {
        expectRecordAfter(open -> {
            open.begin(60_000, 100, 1000);
            open.stay();
        });
        assertEquals("nothing from the sidecar for 1300 ms", reason());
    }

    @Test
    void frame_thatIsMalformed_dropsTheConnection() {
        expectRecordAfter(open -> {
            open.begin();
            open.chunk(new byte[] {3, 0x12, 0x7f, 1});
            open.stay();
        });
        assertEquals("a message of the stream has a malformed length", reason());
    }

    @Test
    void frame_largerThan32MiB_dropsTheConnection() {
        expectRecordAfter(open -> {
            open.begin();
            open.chunk(new byte[] {(byte) 0x81, (byte) 0x80, (byte) 0x80, 0x10});
            open.stay();
        });
        assertEquals("a message of the stream is larger than 33554432 bytes", reason());
    }

    @Test
    void frame_inManyChunks_isRead() {
        sidecar.scripts.add(open -> {
            open.begin();
            byte[] heartbeat = {2, 0x1a, 0};
            for (byte part : heartbeat)
                open.chunk(new byte[] {part});
            open.record("b", 1, "k", 1);
            open.stay();
        });
        try (Consumer consumer = consumer().build()) {
            assertEquals("1001", consumer.iterator().next().sequenceNumber());
        }
        assertEquals(1, events("heartbeat").size());
    }

    @Test
    void stream_withChunkExtensionsAndATrailer_isReadToItsEnd() {
        expectRecordAfter(open -> {
            open.begin();
            open.answer("3;name=value\r\n\u0002\u001a\u0000\r\n0\r\nTrailer: value\r\n\r\n");
            open.stay();
        });
        assertEquals(2, events("heartbeat").size());
        assertEquals("the sidecar ended the stream", reason());
    }

    @Test
    void record_of10MiB_isDelivered() {
        byte[] data = new byte[10 << 20];
        data[data.length - 1] = 7;
        sidecar.scripts.add(open -> {
            open.begin();
            open.record("b", 1, "k", 1, data);
            open.record("b", 2, "k", 1);
            open.stay();
        });
        try (Consumer consumer = consumer().build()) {
            Iterator<SidecarRecord> records = consumer.iterator();
            byte[] received = records.next().data();
            assertEquals(data.length, received.length);
            assertEquals(7, received[received.length - 1]);
            assertEquals("1002", records.next().sequenceNumber());
        }
    }

    @Test
    void noSidecarAtTheAddress_isReportedEachTime() throws Exception {
        sidecar.close();
        try (Consumer consumer = consumer().build()) {
            Thread reader = new Thread(() -> consumer.iterator().hasNext());
            reader.start();
            Eventually.until("three tries", () -> events("disconnected").size() >= 3);
            consumer.stop();
            reader.join();
        }
    }

    @Test
    void unknownEvent_isHandedToTheListener() {
        sidecar.scripts.add(open -> {
            open.begin();
            open.chunk(new byte[] {3, (byte) 0x9a, 6, 0});
            open.record("b", 1, "k", 1);
            open.stay();
        });
        try (Consumer consumer = consumer().build()) {
            assertEquals("1001", consumer.iterator().next().sequenceNumber());
        }
        assertEquals(99, events("unknown").get(0).number("field"));
    }

    @Test
    void listener_thatThrows_endsTheConsumer() {
        sidecar.deliver("b", 1);
        try (Consumer consumer = sidecar.consumer().onEvent(event -> {
            throw new IllegalStateException("the listener's");
        }).build()) {
            assertThrows(SidecarException.class, () -> consumer.run(record -> { }));
        }
    }

    @Test
    void takeOver_endsTheRun_andLeavesTheSession() {
        sidecar.scripts.add(open -> {
            open.begin();
            open.ended(SessionEnd.SESSION_END_TAKEN_OVER);
        });
        try (Consumer consumer = consumer().build()) {
            assertThrows(SessionTakenOverException.class, () -> consumer.run(record -> { }));
            assertThrows(IllegalStateException.class, () -> consumer.run(record -> { }));
        }
        assertEquals(0, sidecar.deletes.get());
        assertEquals(1, sidecar.streams.size());
    }

    @Test
    void tokenFile_rotated_isReadAgain(@TempDir Path directory) throws Exception {
        Path file = Files.writeString(directory.resolve("token"), "first\n");
        sidecar.deliver("b", 1, 2);
        try (Consumer consumer = consumer().tokenFile(file).build()) {
            Iterator<SidecarRecord> records = consumer.iterator();
            records.next();
            Files.writeString(file, "second\n");
            records.next();
            Eventually.until("a settle request", () -> !sidecar.settles.isEmpty());
        }
        assertEquals("Bearer first", sidecar.streams.get(0).headers().get("authorization"));
        assertEquals("Bearer second", sidecar.settles.get(0).headers().get("authorization"));
    }

    @Test
    void options_areInTheQuery() {
        sidecar.deliver("b", 1);
        try (Consumer consumer = consumer().concurrency(100).maxInFlight(7).maxInFlightBytes(8)
                .ackDeadline(java.time.Duration.ofSeconds(9)).shards(List.of("a", "b")).subscription("x y").build()) {
            consumer.iterator().next();
        }
        assertEquals("/v1/records/stream?client_id=test&max_in_flight=7&max_in_flight_bytes=8&ack_deadline_ms=9000"
                + "&lanes=64&ordering=key&shards=a%2Cb&subscription=x%20y", sidecar.streams.get(0).path());
        assertEquals("application/x-protobuf", sidecar.streams.get(0).headers().get("accept"));
    }

    @Test
    void stream_isAskedForTheRecordsThatTheConsumerWants() {
        assertQuery("&lanes=64&ordering=key&share=0.05&salt=v2", consumer().share("0.05").salt("v2"));
        assertQuery("&lanes=8&ordering=key&share=0.5", consumer().share("0.5").ordering(Ordering.KEY).lanes(8));
        assertQuery("&filter=%7B%22data%22%3A%7B%22a%22%3A%5B%22%C3%A4%20%2B%26%22%5D%7D%7D",
                consumer().filter("{\"data\":{\"a\":[\"\u00e4 +&\"]}}"));
        assertQuery("", consumer());
    }

    private void assertQuery(String wanted, Consumer.Builder builder) {
        int opened = sidecar.streams.size();
        sidecar.deliver("b", 1);
        try (Consumer consumer = builder.build()) {
            consumer.iterator().next();
        }
        assertEquals("/v1/records/stream?client_id=test" + wanted, sidecar.streams.get(opened).path());
    }

    @Test
    void options_outOfTheirLimits_areRefused() {
        assertEquals("max_in_flight must be 1..100000, got 0",
                assertThrows(IllegalArgumentException.class, () -> consumer().maxInFlight(0)).getMessage());
        assertThrows(IllegalArgumentException.class, () -> Consumer.builder("a b"));
        assertThrows(IllegalArgumentException.class, () -> consumer().url("https://localhost"));
        assertThrows(IllegalArgumentException.class, () -> consumer().lanes(4).build());
    }

    @Test
    void consumer_thatIsNotRead_opensNothing() {
        try (Consumer consumer = consumer().build()) {
            assertEquals(0, consumer.stale());
        }
        assertEquals(0, sidecar.streams.size());
        assertEquals(0, sidecar.deletes.get());
    }

    @Test
    void closedConsumer_endsItsIteration() {
        sidecar.deliver("b", 1, 2);
        Consumer consumer = consumer().build();
        Iterator<SidecarRecord> records = consumer.iterator();
        records.next();
        consumer.close();
        assertFalse(records.hasNext());
        assertFalse(consumer.iterator().hasNext());
        assertEquals(1, sidecar.deletes.get());
        assertEquals(0, sidecar.settlesWith("ack").size());
    }

    @Test
    void data_thatIsNotJson_isAFailureOfTheHandler() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.record("b", 1, "k", 1, "no json".getBytes(StandardCharsets.UTF_8));
            open.heartbeat();
            open.stay();
        });
        Consumer consumer = consumer().build();
        sidecar.settleAnswer = request -> {
            consumer.stop();
            return ScriptedSidecar.OK;
        };
        consumer.run(SidecarRecord::json);
        assertEquals("data is not JSON: character 0 must be a value",
                sidecar.settlesWith("retry").get(0).settlements().get(0).get("reason"));
    }
}
