// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Settlements, extensions, retries with their barriers, and redeliveries. */
class SettlingTest extends ConsumerFixture {
    @Test
    void batch_acknowledgedWhole_isOneItem() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.record("b", 1, "k", 1);
            open.heartbeat();
            open.record("b", 2, "k", 1);
            open.record("c", 3, "k", 1);
            open.stay();
        });
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> { });
        untilHandled("1", "2", "3");
        consumer.close();
        assertEquals(List.of(Map.of("batch_id", "b", "outcome", "ack"), Map.of("ack_id", "c-3", "outcome", "ack")),
                sidecar.settles.get(0).settlements());
        assertEquals(1, sidecar.settles.size());
    }

    @Test
    void batch_thatMayGoOn_isAcknowledgedByRecord() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.record("b", 1, "k", 1);
            open.heartbeat();
            open.stay();
        });
        build(sidecar.consumer());
        run(record -> { });
        untilSettled("ack", "ack_id", "b-1");
        assertEquals(List.of(), settled("ack", "batch_id"));
    }

    @Test
    void outcomes_areSentWithTheirReasons() throws Exception {
        sidecar.deliver("b", 1, 2, 3, 4);
        build(sidecar.consumer().ordering(Ordering.NONE));
        run(record -> {
            switch (record.sequenceNumber()) {
                case "1001" -> record.deadLetter("no \"such\" customer\n");
                case "1002" -> record.drop();
                case "1003" -> record.retry(Duration.ofMillis(1500), "later");
                default -> { }
            }
            record.deadLetter("the first outcome counts");
            record.ack();
        });
        untilSettled("dead_letter", "ack_id", "b-4");
        assertEquals(List.of("b-1", "b-4"), settled("dead_letter", "ack_id"));
        assertEquals("no \"such\" customer\n", settled("dead_letter", "reason").get(0));
        assertEquals(List.of("b-2"), settled("drop", "ack_id"));
        assertEquals(List.of("b-3"), settled("retry", "ack_id"));
        assertEquals("later", settled("retry", "reason").get(0));
        assertEquals(1500, ((Number) settled("retry", "delay_ms").get(0)).intValue());
        assertEquals(List.of(), settled("ack", "ack_id"));
    }

    @Test
    void otherOutcome_isInARequestWithoutAcknowledgements() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> {
            if (record.sequenceNumber().equals("1002"))
                record.deadLetter("asked");
        });
        untilSettled("dead_letter", "ack_id", "b-2");
        untilSettled("ack", "ack_id", "b-1");
        assertTrue(sidecar.settles.stream().allMatch(request -> request.settlements().size() == 1));
    }

    @Test
    void acknowledgements_areAtMost1000InARequest() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin(60_000, 10_000, 10_000);
            for (int number = 1; number <= 1500; number++)
                open.record("b", number, "k", 1);
            open.stay();
        });
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> { });
        Eventually.until("all are handled", () -> handled.size() == 1500);
        consumer.close();
        assertEquals(List.of(1000, 500),
                sidecar.settles.stream().map(request -> request.settlements().size()).toList());
    }

    @Test
    void extend_movesTheDeadlineOfItsRecord() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> {
            record.extend(Duration.ofMinutes(5));
            release.await();
        });
        untilSettled("extend", "ack_id", "b-1");
        assertEquals(300_000, ((Number) settled("extend", "delay_ms").get(0)).intValue());
    }

    @Test
    void reason_longerThan1000Bytes_isCutBetweenCharacters() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> record.deadLetter("x" + "\u20ac".repeat(900)));
        untilSettled("dead_letter", "ack_id", "b-1");
        assertEquals("x" + "\u20ac".repeat(333), settled("dead_letter", "reason").get(0));
    }

    @Test
    void acknowledgements_leaveWhenHalfOfTheLimitWaits() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin(60_000, 10_000, 4);
            open.record("b", 1, "k", 1);
            open.record("b", 2, "k", 1);
            open.stay();
        });
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> { });
        untilSettled("ack", "ack_id", "b-2");
        assertEquals(1, sidecar.settles.size());
    }

    @Test
    void acknowledgements_leaveWhenHalfOfTheBytesWait() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.record("b", 1, "k", 1, new byte[9 << 20]);
            open.stay();
        });
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> { });
        untilSettled("ack", "ack_id", "b-1");
    }

    @Test
    void settleRequest_withoutAnswer_isRepeated() throws Exception {
        AtomicBoolean first = new AtomicBoolean(true);
        sidecar.settleAnswer = request -> first.getAndSet(false) ? ScriptedSidecar.NO_ANSWER : ScriptedSidecar.OK;
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> { });
        Eventually.until("the repetition", () -> sidecar.settles.size() == 2);
        assertEquals(sidecar.settles.get(0).body(), sidecar.settles.get(1).body());
        assertEquals(0, consumer.stale());
    }

    @Test
    void settleRequest_answered503_isRepeated() throws Exception {
        AtomicBoolean first = new AtomicBoolean(true);
        sidecar.settleAnswer = request -> first.getAndSet(false)
                ? ScriptedSidecar.problem(503, "unavailable", "Retry-After: 1\r\n") : ScriptedSidecar.OK;
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> { });
        Eventually.until("the repetition", () -> sidecar.settles.size() == 2);
    }

    @Test
    void settleRequest_answeredLate_isNotRepeated() throws Exception {
        CountDownLatch answer = new CountDownLatch(1);
        sidecar.settleAnswer = request -> {
            await(answer);
            return ScriptedSidecar.OK;
        };
        sidecar.deliver("b", 1, 2);
        Consumer.Builder builder = sidecar.consumer().ackInterval(Duration.ZERO);
        builder.options.answerMs = Duration.ofHours(1).toMillis();
        build(builder);
        run(record -> {
            if (record.sequenceNumber().equals("1002"))
                release.await();
        });
        Eventually.until("the first request", () -> sidecar.settles.size() == 1);
        release.countDown();
        untilHandled("1", "2");
        assertEquals(1, sidecar.settles.size());
        answer.countDown();
        Eventually.until("the second request", () -> sidecar.settles.size() == 2);
    }

    @Test
    void settleRequest_ofAnEndedSession_isCountedAsStale() throws Exception {
        sidecar.settleAnswer = request -> ScriptedSidecar.problem(409, "session-fenced", "");
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> { });
        Eventually.until("two stale settlements", () -> consumer.stale() == 2);
        sidecar.settleAnswer = request -> ScriptedSidecar.problem(410, "session-expired", "");
        sidecar.stream.record("c", 3, "k", 1);
        Eventually.until("three stale settlements", () -> consumer.stale() == 3);
        assertEquals(0, consumer.failed());
    }

    @Test
    void settleRequest_refusedWith401_endsTheRun() {
        sidecar.settleAnswer = request -> ScriptedSidecar.problem(401, "unauthenticated", "");
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        assertEquals(401, assertThrows(SidecarException.class, () -> consumer.run(record -> { })).status());
    }

    @Test
    void settlement_refused_isCountedAndReported() throws Exception {
        sidecar.settleAnswer = request -> ScriptedSidecar.refused("b-1", "FENCED");
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> { });
        Eventually.until("a settlement failed", () -> events.stream().anyMatch(e -> e.type().equals("settle_failed")));
        Event event = events.stream().filter(e -> e.type().equals("settle_failed")).findFirst().orElseThrow();
        assertEquals(Map.of("ack_id", "b-1", "reason", "FENCED", "message", "the sentence"), event.members());
        assertEquals(1, consumer.failed());
    }

    @Test
    void ackPersisted_returnsTheAnswer() throws Exception {
        sidecar.settleAnswer = request -> request.body().contains("\"wait\":\"persisted\"")
                ? ScriptedSidecar.response(200, "", "{\"ok\":1,\"failed\":[],\"persisted\":"
                        + request.body().contains("b-1") + ",\"positions\":[]}") : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        List<Boolean> answers = new CopyOnWriteArrayList<>();
        run(record -> answers.add(record.ackPersisted()));
        Eventually.until("two answers", () -> answers.equals(List.of(true, false)));
    }

    @Test
    void extension_namesTheBatch_andEndsAtMaxProcessing() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin(300, 10_000, 1000);
            open.record("b", 1, "k", 1);
            open.stay();
        });
        Duration maxProcessing = Duration.ofSeconds(5);
        build(sidecar.consumer().maxProcessing(maxProcessing));
        run(record -> release.await());
        untilHandled("1");
        long begun = System.nanoTime();
        Eventually.until("two extensions", () -> settled("extend", "batch_id").size() >= 2);
        assertEquals(300, ((Number) settled("extend", "delay_ms").get(0)).intValue());
        Eventually.until("max_processing is over", () -> System.nanoTime() - begun > maxProcessing.toNanos());
        int before = settled("extend", "batch_id").size();
        sidecar.stream.record("c", 2, "k", 1);
        Eventually.until("two extensions of the next batch", () -> settled("extend", "batch_id").size() >= before + 2);
        assertEquals(List.of("c", "c"), settled("extend", "batch_id").subList(before, before + 2));
    }

    @Test
    void redelivery_doesNotBeginMaxProcessingAgain() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin(300, 10_000, 1000);
            open.record("b", 1, "k", 1);
            open.stay();
        });
        Duration maxProcessing = Duration.ofSeconds(2);
        build(sidecar.consumer().maxProcessing(maxProcessing));
        run(record -> release.await());
        untilHandled("1");
        long begun = System.nanoTime();
        Eventually.until("max_processing is over", () -> System.nanoTime() - begun > maxProcessing.toNanos());
        sidecar.stream.record("c", 1, "k", 2);
        sidecar.stream.record("c", 2, "k", 1);
        untilSettled("extend", "ack_id", "c-2");
        assertFalse(settled("extend", "ack_id").contains("c-1"));
        assertFalse(settled("extend", "batch_id").contains("c"));
    }

    @Test
    void extension_ofABatchWithoutOpenRecords_isNotSent() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin(300, 10_000, 1000);
            open.record("b", 1, "k", 1);
            open.stay();
        });
        build(sidecar.consumer().ackInterval(Duration.ZERO));
        run(record -> { });
        untilSettled("ack", "ack_id", "b-1");
        int before = settled("extend", "batch_id").size();
        Thread.sleep(500);
        assertEquals(before, settled("extend", "batch_id").size());
    }

    @Test
    void retry_accepted_dropsTheLaterRecordsBeforeTheBarrier() throws Exception {
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        run(record -> {
            if (record.attempt() == 1 && record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("once");
        });
        Eventually.until("the retry", () -> sidecar.settlesWith("retry").size() == 1);
        String barrier = sidecar.settlesWith("retry").get(0).barrier();
        assertTrue(barrier.matches("[0-9]+"));
        untilHandled("1");
        sidecar.stream.barrier(barrier);
        for (int number = 1; number <= 4; number++)
            sidecar.stream.record("c", number, "k", number < 4 ? 2 : 1);
        untilHandled("1", "1", "2", "3", "4");
        sidecar.stream.heartbeat();
        assertEquals("once", settled("retry", "reason").get(0));
    }

    @Test
    void retry_redeliveredBeforeItsAnswer_keepsTheOrder() throws Exception {
        CountDownLatch answer = new CountDownLatch(1);
        sidecar.settleAnswer = request -> {
            await(answer);
            return ScriptedSidecar.OK;
        };
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (record.attempt() == 1)
                throw new IllegalStateException("once");
        });
        Eventually.until("the retry", () -> sidecar.settlesWith("retry").size() == 1);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        sidecar.stream.record("c", 1, "k", 2);
        sidecar.stream.record("c", 2, "k", 2);
        untilHandled("1", "1", "2");
        answer.countDown();
        untilSettled("ack", "ack_id", "c-2");
    }

    @Test
    void retry_answeredBeforeItsBarrier_waitsForTheBarrier() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.recordOfLane(0, "b", 1, 1);
            open.stay();
        });
        build(sidecar.consumer().concurrency(2));
        run(record -> {
            if (record.attempt() == 1 && record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("once");
        });
        Eventually.until("the retry", () -> sidecar.settlesWith("retry").size() == 1);
        sidecar.stream.recordOfLane(7, "d", 3, 1);
        /* The request of this one is sent after the answer to the retry. */
        untilSettled("ack", "ack_id", "d-3");
        sidecar.stream.recordOfLane(0, "b", 2, 1);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        sidecar.stream.recordOfLane(0, "c", 1, 2);
        sidecar.stream.recordOfLane(0, "c", 2, 2);
        untilSettled("ack", "ack_id", "c-2");
        assertEquals(List.of("1", "3", "1", "2"), handled);
    }

    @Test
    void retry_accepted_keepsAnEarlierRecord() throws Exception {
        sidecar.deliver("b", 2);
        build(sidecar.consumer());
        run(record -> {
            if (number(record).equals("2")) {
                release.await();
                throw new IllegalStateException("once");
            }
        });
        untilHandled("2");
        sidecar.stream.record("c", 1, "k", 2);
        untilReceived();
        release.countDown();
        Eventually.until("the retry", () -> sidecar.settlesWith("retry").size() == 1);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        untilHandled("2", "1");
    }

    @Test
    void retry_withOrderingByKey_holdsItsLaneOnly() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.recordOfLane(0, "b", 1, 1);
            open.recordOfLane(0, "b", 2, 1);
            open.recordOfLane(7, "b", 3, 1);
            open.stay();
        });
        build(sidecar.consumer().concurrency(2));
        run(record -> {
            if (record.attempt() == 1 && record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("once");
        });
        Eventually.until("the retry", () -> sidecar.settlesWith("retry").size() == 1);
        Eventually.until("the other lane", () -> handled.contains("3"));
        assertFalse(handled.contains("2"));
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        sidecar.stream.recordOfLane(0, "c", 1, 2);
        sidecar.stream.recordOfLane(0, "c", 2, 2);
        Eventually.until("the lane", () -> handled.size() == 4);
        assertEquals(List.of("1", "2"), handled.subList(2, 4));
    }

    @Test
    void retry_refused_handsTheLaterRecordsOut() throws Exception {
        sidecar.settleAnswer = request -> request.has("retry") ? ScriptedSidecar.refused("b-1", "MALFORMED")
                : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("refused");
        });
        Eventually.until("the refusal", () -> consumer.failed() == 1);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        untilHandled("1", "2");
        assertEquals(1, consumer.failed());
    }

    @Test
    void retry_withoutOrder_holdsNothingBack() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer().ordering(Ordering.NONE));
        run(record -> {
            if (record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("no barrier comes");
        });
        Eventually.until("both are handled", () -> handled.size() == 2);
    }

    @Test
    void recordsOfOneLane_areHandledOneAfterTheOther() throws Exception {
        sidecar.scripts.add(open -> {
            open.begin();
            open.recordOfLane(4, "b", 1, 1);
            open.recordOfLane(4, "b", 2, 1);
            open.recordOfLane(5, "b", 3, 1);
            open.stay();
        });
        build(sidecar.consumer().concurrency(3));
        run(record -> {
            if (record.sequenceNumber().equals("1001"))
                release.await();
        });
        untilSettled("ack", "ack_id", "b-3");
        assertFalse(handled.contains("2"));
        release.countDown();
        untilSettled("ack", "ack_id", "b-2");
    }

    /** The barrier of a request that is sent twice comes twice, and is one. */
    @Test
    void barrier_ofARepeatedRequest_resolvesNoLaterRetry() throws Exception {
        AtomicBoolean first = new AtomicBoolean(true);
        sidecar.settleAnswer = request -> first.getAndSet(false) ? ScriptedSidecar.NO_ANSWER : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (record.attempt() < 3 && record.sequenceNumber().equals("1001"))
                throw new IllegalStateException("twice");
        });
        Eventually.until("the repetition", () -> sidecar.settlesWith("retry").size() == 2);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(1).barrier());
        sidecar.stream.record("c", 1, "k", 2);
        sidecar.stream.record("c", 2, "k", 1);
        Eventually.until("the second retry", () -> sidecar.settlesWith("retry").size() == 3);
        sidecar.stream.heartbeat();
        Eventually.until("the heartbeat", () -> events.stream().filter(e -> e.type().equals("heartbeat")).count() == 2);
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(2).barrier());
        sidecar.stream.record("d", 1, "k", 3);
        sidecar.stream.record("d", 2, "k", 1);
        untilHandled("1", "1", "1", "2");
        untilSettled("ack", "ack_id", "d-2");
    }

    @Test
    void redelivery_whileTheHandlerRuns_isSettledByIt() throws Exception {
        sidecar.deliver("b", 1, 2);
        sidecar.deliver("c", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (record.sequenceNumber().equals("1001"))
                release.await();
        });
        untilHandled("1");
        sidecar.stream.answer("not a chunk\r\n");
        Eventually.until("the second session",
                () -> events.stream().filter(e -> e.type().equals("heartbeat")).count() == 2);
        release.countDown();
        untilHandled("1", "2");
        Eventually.until("both are acknowledged", () -> settled("ack", "batch_id").contains("c")
                || settled("ack", "ack_id").containsAll(List.of("c-1", "c-2")));
        assertFalse(settled("ack", "ack_id").contains("b-1"));
        assertEquals(0, consumer.stale());
    }

    @Test
    void outcome_betweenTheSessions_settlesTheRedelivery() throws Exception {
        CountDownLatch next = new CountDownLatch(1);
        sidecar.deliver("b", 1);
        sidecar.scripts.add(open -> {
            open.begin();
            next.await();
            open.record("c", 1, "k", 1);
            open.record("c", 2, "k", 1);
            open.stay();
        });
        build(sidecar.consumer());
        run(record -> {
            if (record.sequenceNumber().equals("1001")) {
                release.await();
                throw new IllegalStateException("between");
            }
        });
        untilHandled("1");
        sidecar.stream.answer("not a chunk\r\n");
        Eventually.until("the second session",
                () -> events.stream().filter(e -> e.type().equals("session")).count() == 2);
        release.countDown();
        next.countDown();
        untilSettled("retry", "ack_id", "c-1");
        assertEquals(List.of("1"), handled);
        assertTrue(sidecar.settlesWith("retry").get(0).barrier().matches("[0-9]+"));
        assertEquals(0, consumer.stale());
    }

    @Test
    void outcome_thatWasNotConfirmed_settlesTheRedelivery() throws Exception {
        /* The first session may repeat its request while the second one begins. */
        sidecar.settleAnswer = request -> request.body().contains("b-1") ? ScriptedSidecar.NO_ANSWER
                : ScriptedSidecar.OK;
        sidecar.deliver("b", 1).deliver("c", 1, 2);
        build(sidecar.consumer());
        run(record -> { });
        untilSettled("ack", "ack_id", "b-1");
        sidecar.stream.answer("not a chunk\r\n");
        untilHandled("1", "2");
        Eventually.until("both are acknowledged", () -> settled("ack", "ack_id").containsAll(List.of("c-1", "c-2")));
        assertEquals(0, consumer.stale());
    }

    /** Breaks the connection, and waits for the session of the next script. */
    private void reconnect() throws Exception {
        int next = sidecar.streams.size() + 1;
        sidecar.stream.answer("not a chunk\r\n");
        Eventually.until("session " + next,
                () -> events.stream().filter(event -> event.type().equals("session")).count() == next);
    }

    /** Drops record 2, and gets no answer. */
    private void dropWithoutAnswer() throws Exception {
        sidecar.settleAnswer = request -> ScriptedSidecar.NO_ANSWER;
        sidecar.deliver("b", 2);
        build(sidecar.consumer());
        run(SidecarRecord::drop);
        untilSettled("drop", "ack_id", "b-2");
    }

    @Test
    void outcome_overASessionWithoutRecords_settlesALaterRedelivery() throws Exception {
        dropWithoutAnswer();
        sidecar.stream.record("x", 3, "k", 1);
        untilHandled("2", "3");
        sidecar.deliver("c").deliver("d", 2, 3, 4);
        reconnect();
        sidecar.settleAnswer = request -> ScriptedSidecar.OK;
        reconnect();
        untilSettled("drop", "ack_id", "d-2");
        untilHandled("2", "3", "4");
        assertEquals(0, consumer.stale());
    }

    @Test
    void outcome_inASessionWithoutRecords_settlesALaterRedelivery() throws Exception {
        sidecar.deliver("b", 1).deliver("c").deliver("d", 1, 2);
        build(sidecar.consumer());
        var records = consumer.iterator();
        SidecarRecord first = records.next();
        reconnect();
        first.drop();
        reconnect();
        assertEquals("1002", records.next().sequenceNumber());
        untilSettled("drop", "ack_id", "d-1");
        assertEquals(0, consumer.stale());
    }

    @Test
    void outcome_isKept_whileTheLastBatchBeginsBeforeItsRecord() throws Exception {
        dropWithoutAnswer();
        sidecar.deliver("c", 1, 3).deliver("d", 2);
        reconnect();
        untilHandled("2", "1", "3");
        reconnect();
        untilSettled("drop", "ack_id", "d-2");
        untilHandled("2", "1", "3");
    }

    @Test
    void outcome_isForgotten_afterASessionThatBeganLater() throws Exception {
        dropWithoutAnswer();
        sidecar.deliver("c", 3).deliver("d", 2);
        reconnect();
        untilHandled("2", "3");
        reconnect();
        untilHandled("2", "3", "2");
    }

    @Test
    void redrivenRecord_isHandedOut_thoughItsFirstOutcomeWasNotConfirmed() throws Exception {
        dropWithoutAnswer();
        sidecar.scripts.add(open -> {
            open.begin();
            open.redriven("c", 2);
            open.stay();
        });
        reconnect();
        untilHandled("2", "2");
    }

    @Test
    void outcomeOfARedrivenRecord_isForgotten_afterTheNextSession() throws Exception {
        sidecar.settleAnswer = request -> ScriptedSidecar.NO_ANSWER;
        for (String batch : List.of("b", "c", "d"))
            sidecar.scripts.add(open -> {
                open.begin();
                if (!batch.equals("c"))
                    open.redriven(batch, 2);
                open.stay();
            });
        build(sidecar.consumer());
        run(SidecarRecord::drop);
        untilSettled("drop", "ack_id", "b-2");
        reconnect();
        reconnect();
        untilHandled("2", "2");
    }

    @Test
    void recordThatNoHandlerHasBegun_isDroppedWithItsConnection() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> release.await());
        untilHandled("1");
        sidecar.stream.answer("not a chunk\r\n");
        Eventually.until("the connection is lost",
                () -> events.stream().anyMatch(e -> e.type().equals("disconnected")));
        release.countDown();
        untilSettled("ack", "ack_id", "b-1");
        assertEquals(List.of("1"), handled);
        sidecar.deliver("c", 2);
        untilHandled("1", "2");
    }

    @Test
    void leaseLost_dropsTheRecordsThatNoHandlerHasBegun() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (record.sequenceNumber().equals("1001"))
                release.await();
        });
        untilHandled("1");
        sidecar.stream.leaseLost();
        Eventually.until("the event", () -> events.stream().anyMatch(e -> e.type().equals("lease_lost")));
        release.countDown();
        sidecar.stream.record("c", 3, "k", 1);
        untilHandled("1", "3");
    }

    @Test
    void close_sendsWhatWaits_thenEndsTheSession() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        CountDownLatch begun = new CountDownLatch(2);
        run(record -> begun.countDown());
        begun.await();
        consumer.close();
        runner.join();
        assertTrue(settled("ack", "batch_id").contains("b") || settled("ack", "ack_id").contains("b-2"));
        assertEquals(1, sidecar.deletes.get());
        assertNull(sidecar.settles.get(0).barrier());
    }

    @Test
    void close_byAHandler_endsTheRun() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> consumer.close());
        runner.join();
        assertEquals(List.of("1"), handled);
        assertEquals(1, sidecar.deletes.get());
    }

    @Test
    void interrupt_endsTheRun_afterItsHandler() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> release.await());
        untilHandled("1");
        runner.interrupt();
        release.countDown();
        runner.join();
        assertTrue(settled("ack", "ack_id").contains("b-1") || settled("ack", "batch_id").contains("b"));
        assertEquals(1, sidecar.deletes.get());
    }

    @Test
    void batches_acknowledgeWhenTheNextOneIsAskedFor() throws Exception {
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        var batches = consumer.batches(2, Duration.ofSeconds(60)).iterator();
        Batch first = batches.next();
        assertEquals(2, first.size());
        first.records().get(0).drop();
        runner = new Thread(batches::hasNext);
        runner.start();
        untilSettled("ack", "ack_id", "b-2");
        assertEquals(List.of("b-1"), settled("drop", "ack_id"));
        consumer.stop();
    }

    @Test
    void batch_retry_beginsWithTheLastRecord() throws Exception {
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        consumer.batches(3, Duration.ofSeconds(60)).iterator().next().retry(Duration.ofMillis(5), "all");
        untilSettled("retry", "ack_id", "b-1");
        assertEquals(List.of("b-3", "b-2", "b-1"), settled("retry", "ack_id"));
    }
}
