// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Redeliveries in one session: of records that were retried, and of records that the app has. */
class RedeliveryTest extends ConsumerFixture {
    private final CountDownLatch answer = new CountDownLatch(1);

    @Override
    void end() throws Exception {
        answer.countDown();
        super.end();
    }

    /* ---- A loop that was left. ---- */

    /** Takes a batch in a loop that is left. */
    private Batch leaveBatch(int size) {
        for (Batch batch : consumer.batches(size, Duration.ofHours(1)))
            return batch;
        throw new AssertionError("the consumer has stopped");
    }

    private void assertLoop(String... numbers) {
        List<String> got = new ArrayList<>();
        for (SidecarRecord record : consumer) {
            got.add(number(record));
            if (got.size() == numbers.length)
                break;
        }
        assertEquals(List.of(numbers), got);
    }

    @Test
    void recordsOfALoopThatWasLeft_areHandedOutByTheNextLoop() throws Exception {
        sidecar.deliver("b", 1, 2, 3, 4);
        build(sidecar.consumer());
        leaveBatch(3).records().get(1).drop();
        assertLoop("1");
        assertLoop("1", "3", "4");
        untilSettled("ack", "ack_id", "b-3");
        assertFalse(settled("ack", "ack_id").contains("b-4"));
    }

    @Test
    void recordThatWasNotLookedAt_isHandedOutByTheNextLoop() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        assertTrue(consumer.iterator().hasNext());
        assertLoop("1", "2");
    }

    @Test
    void recordThatGotItsOutcomeAfterItsLoop_isNotHandedOutAgain() throws Exception {
        sidecar.deliver("b", 1, 2, 3, 4);
        build(sidecar.consumer());
        Batch batch = leaveBatch(3);
        batch.records().get(0).ack();
        assertLoop("2");
        batch.records().get(2).drop(); // It waits for its turn.
        assertLoop("2", "4");
        untilSettled("ack", "ack_id", "b-1");
        untilSettled("drop", "ack_id", "b-3");
    }

    @Test
    void loopThatAnotherOneFollowed_ends() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        Iterator<SidecarRecord> first = consumer.iterator();
        first.next();
        assertLoop("1");
        assertThrows(IllegalStateException.class, first::hasNext);
    }

    @Test
    void recordsOfALoopThatWasLeft_areHandedOutOnceAfterTheirRedelivery() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        leaveBatch(2);
        redeliver("c", 1, 2, 3);
        untilReceived();
        assertLoop("1", "2", "3");
        untilSettled("ack", "ack_id", "c-1");
    }

    @Test
    void redelivery_replacesRecordsOfALoopThatWasLeft() throws Exception {
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        leaveBatch(3);
        assertLoop("1");
        redeliver("c", 2, 3, 4);
        untilReceived();
        assertLoop("1", "2", "3", "4");
        untilSettled("ack", "ack_id", "c-2");
    }

    @Test
    void recordsThatARetryTakesBackFromALoopThatWasLeft_areHandedOutBehindIt() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        leaveBatch(2).records().get(0).retry();
        untilRetried(1);
        barrierOfTheRetry();
        redeliver("c", 1, 2, 3);
        untilReceived();
        assertLoop("1", "2", "3");
    }

    /** Begins a loop, and waits until it waits for a record. Each one is noted by its number and its attempt. */
    private List<String> beginLoop() throws InterruptedException {
        List<String> names = new CopyOnWriteArrayList<>();
        runner = new Thread(() -> {
            for (SidecarRecord record : consumer)
                names.add(number(record) + "/" + record.attempt());
        });
        runner.start();
        Eventually.until("the loop waits", () -> runner.getState() == Thread.State.WAITING);
        return names;
    }

    /** Leaves a loop that has records 1 and 2, and retries record 1. The retry has its answer and its barrier. */
    private void leaveRetried(String answerToTheRetry) throws Exception {
        sidecar.settleAnswer = request -> request.has("retry") ? answerToTheRetry : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        Batch batch = leaveBatch(2);
        batch.records().get(0).retry();
        untilRetried(1);
        barrierOfTheRetry();
        untilReceived();
        /* Settle requests leave one at a time. */
        batch.records().get(1).extend(Duration.ofSeconds(60));
        untilSettled("extend", "ack_id", "b-2");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "EXPIRED"})
    void recordThatARetryTakesBackFromALoopThatWasLeft_waitsForItsRedelivery(String reason) throws Exception {
        leaveRetried(reason.isEmpty() ? ScriptedSidecar.OK : ScriptedSidecar.refused("b-1", reason));
        List<String> names = beginLoop();
        redeliver("c", 1, 2, 3);
        Eventually.until("record 3", () -> names.contains("3/2"));
        assertEquals(List.of("1/2", "2/2", "3/2"), names);
    }

    @Test
    void recordThatARefusedRetryLeavesToALoopThatWasLeft_isHandedOutAgain() throws Exception {
        leaveRetried(ScriptedSidecar.refused("b-1", "MALFORMED"));
        assertLoop("2");
    }

    /** The ack deadline of both records has passed. */
    @Test
    void recordOfALoopThatWasLeft_waitsForItsRedeliveryBehindThatOfAnother() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        leaveBatch(2);
        redeliver("c", 1);
        untilReceived();
        List<String> names = beginLoop();
        redeliver("c", 2);
        Eventually.until("record 2", () -> names.size() == 2);
        assertEquals(List.of("1/1", "2/2"), names);
    }

    @Test
    void recordOfABatchThatWasInterrupted_isHandedOutByTheNextLoop() throws Exception {
        sidecar.deliver("b", 1);
        Iterator<Batch> batches = batches(2);
        Thread loop = new Thread(batches::hasNext);
        loop.start();
        Eventually.until("the first record", () -> loop.getState() == Thread.State.TIMED_WAITING);
        loop.interrupt();
        loop.join();
        assertLoop("1");
    }

    @Test
    void recordOfALostLease_isNotHandedOutByTheNextLoop() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        leaveBatch(1);
        sidecar.stream.leaseLost();
        sidecar.stream.record("c", 2, "k", 1);
        untilReceived();
        assertLoop("2");
    }

    /* ---- A retry whose request is repeated. ---- */

    /** Gives the first request with the outcome no answer. The repetition is answered when the latch opens. */
    private void repeat(String outcome, String repetition) {
        AtomicBoolean first = new AtomicBoolean(true);
        sidecar.settleAnswer = request -> {
            if (!request.has(outcome))
                return ScriptedSidecar.OK;
            if (first.getAndSet(false))
                return ScriptedSidecar.NO_ANSWER;
            await(answer);
            return repetition;
        };
    }

    /** The handler of record 1 fails once. The repeated retry waits for its answer, and record 2 for the retry. */
    private void retryTwice(String reason) throws Exception {
        repeat("retry", ScriptedSidecar.refused("b-1", reason));
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (handled.equals(List.of("1")))
                throw new IllegalStateException("once");
        });
        untilRetried(2);
    }

    private void untilRetried(int requests) throws InterruptedException {
        Eventually.until("requests with a retry", () -> sidecar.settlesWith("retry").size() >= requests);
    }

    private void barrierOfTheRetry() {
        sidecar.stream.barrier(sidecar.settlesWith("retry").get(0).barrier());
    }

    /** A dead letter has no order. The request of this one is sent after the answer. */
    private void untilAnswered() throws InterruptedException {
        answer.countDown();
        sidecar.stream.redriven("x", 9);
        untilSettled("ack", "ack_id", "x-9");
    }

    private void redeliver(String batch, int... numbers) {
        for (int number : numbers)
            sidecar.stream.record(batch, number, "k", 2);
    }

    private void assertNoneFailed() {
        assertEquals(0, consumer.failed());
        assertFalse(events.stream().anyMatch(event -> event.type().equals("settle_failed")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"EXPIRED", "FENCED"})
    void retry_refusedWhenRepeated_beforeTheRedelivery_wasAccepted(String reason) throws Exception {
        retryTwice(reason);
        barrierOfTheRetry();
        untilAnswered();
        redeliver("c", 1, 2);
        untilHandled("1", "9", "1", "2");
        assertNoneFailed();
    }

    @ParameterizedTest
    @ValueSource(strings = {"EXPIRED", "FENCED"})
    void retry_refusedWhenRepeated_afterTheRedelivery_wasAccepted(String reason) throws Exception {
        retryTwice(reason);
        barrierOfTheRetry();
        redeliver("c", 1, 2);
        untilHandled("1", "1", "2");
        untilAnswered();
        assertNoneFailed();
    }

    /** The first copy was lost, and the ack deadline has passed. The barrier is that of the second copy. */
    @Test
    void redelivery_beforeTheBarrier_isNotTakenBack() throws Exception {
        retryTwice("EXPIRED");
        redeliver("c", 1, 2);
        untilHandled("1", "1", "2");
        untilAnswered();
        barrierOfTheRetry();
        untilReceived();
        untilSettled("ack", "batch_id", "c");
        assertNoneFailed();
    }

    /** The next owner of the lease has settled record 1. */
    @Test
    void recordOfTheNextEpoch_isNotTakenBack() throws Exception {
        retryTwice("FENCED");
        sidecar.stream.leaseLost();
        sidecar.stream.recordOfEpoch(2, "c", 2);
        untilReceived();
        untilAnswered();
        barrierOfTheRetry();
        untilHandled("1", "9", "2");
        untilSettled("ack", "batch_id", "c");
        assertNoneFailed();
    }

    /** The app has record 1 when its lease is lost. Another sidecar has settled the record. */
    @Test
    void retry_afterALostLease_takesNothingOfTheNextLeaseBack() throws Exception {
        sidecar.settleAnswer = request -> request.has("retry") ? ScriptedSidecar.refused("b-1", "FENCED")
                : ScriptedSidecar.OK;
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> {
            if (handled.equals(List.of("1"))) {
                release.await();
                throw new IllegalStateException("once");
            }
        });
        untilHandled("1");
        sidecar.stream.leaseLost();
        sidecar.stream.recordOfEpoch(2, "c", 2);
        untilReceived();
        release.countDown();
        untilRetried(1);
        untilAnswered();
        barrierOfTheRetry();
        untilHandled("1", "9", "2");
        assertNoneFailed();
    }

    /** SETTLED: another delivery of the record was settled. */
    @ParameterizedTest
    @ValueSource(strings = {"MALFORMED", "SETTLED"})
    void retry_refusedForAnotherReason_takesNothingBack(String reason) throws Exception {
        retryTwice(reason);
        untilAnswered();
        /* Without a barrier the session is one of another process. */
        assertEquals(List.of("1", "9"), handled);
        barrierOfTheRetry();
        untilHandled("1", "9", "2");
        assertEquals(1, consumer.failed());
    }

    /** The sidecar accepted the first copy of the request, wrote its barrier, and was restarted. */
    @Test
    void retry_ofAnUnknownId_holdsItsLaneUntilTheNextSession() throws Exception {
        retryTwice("UNKNOWN");
        barrierOfTheRetry();
        untilAnswered();
        sidecar.deliver("c", 1, 2);
        sidecar.stream.drop();
        untilHandled("1", "9", "1", "2");
        assertEquals(1, consumer.failed());
    }

    /** The ack deadline has passed: both records are on their way again. */
    @Test
    void retry_thatIsExpired_waitsForTheRedelivery() throws Exception {
        sidecar.settleAnswer = request -> request.has("retry") ? ScriptedSidecar.refused("b-1", "EXPIRED")
                : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (handled.equals(List.of("1")))
                throw new IllegalStateException("once");
        });
        untilRetried(1);
        untilAnswered();
        redeliver("c", 1, 2);
        barrierOfTheRetry();
        untilHandled("1", "9", "1", "2");
        assertNoneFailed();
    }

    /** An ack deadline has passed while a handler has record 1. */
    @Test
    void redelivery_replacesTheRecordsThatWait() throws Exception {
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        run(record -> {
            attempts.add(record.attempt());
            await(answer);
        });
        Eventually.until("a handler", () -> attempts.size() == 1);
        redeliver("c", 2, 3);
        untilReceived();
        answer.countDown();
        untilHandled("1", "2", "3");
        assertEquals(List.of(1, 2, 2), attempts);
    }

    @Test
    void retry_ofAnEndedSession_holdsItsLane() throws Exception {
        sidecar.settleAnswer = request -> request.has("retry") ? ScriptedSidecar.problem(410, "session-expired", "")
                : ScriptedSidecar.OK;
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (handled.equals(List.of("1")))
                throw new IllegalStateException("once");
        });
        Eventually.until("a stale retry", () -> consumer.stale() == 1);
        untilAnswered();
        assertEquals(List.of("1", "9"), handled);
    }

    @Test
    void drop_refusedWhenRepeated_hasFailed() throws Exception {
        repeat("drop", ScriptedSidecar.refused("b-1", "EXPIRED"));
        answer.countDown();
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(SidecarRecord::drop);
        Eventually.until("the refusal is counted", () -> consumer.failed() == 1);
    }

    @Test
    void retry_refusedAfterItsConnectionWasClosed_wasAccepted() throws Exception {
        repeat("retry", ScriptedSidecar.refused("b-2", "EXPIRED"));
        sidecar.deliver("b", 1, 2, 3);
        build(sidecar.consumer());
        run(record -> {
            if (number(record).equals("1"))
                record.drop();
            else if (handled.equals(List.of("1", "2")))
                throw new IllegalStateException("once");
        });
        untilRetried(2);
        barrierOfTheRetry();
        untilAnswered();
        redeliver("c", 2, 3);
        untilHandled("1", "2", "9", "2", "3");
        assertNoneFailed();
    }

    /* ---- The app has the record that is redelivered. ---- */

    @Test
    void restOfABatch_afterARetryOfItsFirstRecord_isNotHandedOutAgain() throws Exception {
        sidecar.deliver("b", 1, 2, 3);
        Iterator<Batch> batches = batches(3);
        batches.next().records().get(0).retry();
        untilRetried(1);
        barrierOfTheRetry();
        redeliver("c", 1, 2, 3);
        redeliver("d", 4, 5);
        untilReceived();
        assertEquals(List.of("1", "4", "5"), batches.next().records().stream().map(ConsumerFixture::number).toList());
        untilSettled("ack", "ack_id", "c-2");
        untilSettled("ack", "ack_id", "c-3");
        assertEquals(2, settled("ack", "ack_id").size());
        assertEquals(List.of(), settled("ack", "batch_id"));
    }

    private Iterator<Batch> batches(int records) {
        build(sidecar.consumer());
        return consumer.batches(records, Duration.ofSeconds(60)).iterator();
    }

    @Test
    void record_ofARunningHandler_isNotHandedOutAgain() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> release.await());
        untilHandled("1");
        redeliver("c", 1, 2);
        untilReceived();
        release.countDown();
        untilSettled("ack", "ack_id", "c-2");
        assertEquals(List.of("1", "2"), handled);
        assertTrue(settled("ack", "ack_id").contains("c-1"));
        assertFalse(settled("ack", "ack_id").contains("b-1"));
    }

    @Test
    void record_ofARunningHandler_isNotHandedOutAgain_whenItsLeaseIsRegained() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> release.await());
        untilHandled("1");
        sidecar.stream.leaseLost();
        sidecar.stream.recordOfEpoch(2, "c", 1);
        sidecar.stream.recordOfEpoch(2, "c", 2);
        untilReceived();
        release.countDown();
        untilSettled("ack", "ack_id", "c-2");
        assertEquals(List.of("1", "2"), handled);
        assertTrue(settled("ack", "ack_id").contains("c-1"));
        assertNoneFailed();
    }

    @Test
    void record_thatWaits_isHandedOutOnce() throws Exception {
        sidecar.deliver("b", 1, 2);
        build(sidecar.consumer());
        run(record -> {
            if (number(record).equals("1"))
                release.await();
        });
        untilHandled("1");
        redeliver("c", 2);
        untilReceived();
        release.countDown();
        untilSettled("ack", "ack_id", "c-2");
        assertEquals(List.of("1", "2"), handled);
    }

    @ParameterizedTest
    @EnumSource(names = {"ACK", "DROP", "DEAD_LETTER"})
    void outcome_withoutAnAnswer_settlesTheRedelivery(Outcome outcome) throws Exception {
        sidecar.settleAnswer = request -> request.body().contains("b-1")
                ? ScriptedSidecar.problem(503, "unavailable", "") : ScriptedSidecar.OK;
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> {
            if (outcome == Outcome.DROP)
                record.drop();
            if (outcome == Outcome.DEAD_LETTER)
                record.deadLetter("asked");
        });
        untilSettled(outcome.word, "ack_id", "b-1");
        redeliver("c", 1, 2);
        untilHandled("1", "2");
        sidecar.settleAnswer = request -> ScriptedSidecar.OK;
        untilSettled(outcome.word, "ack_id", "c-1");
    }

    @Test
    void acknowledgement_thatIsNotSent_settlesTheRedelivery() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer().ackInterval(Duration.ofSeconds(60)));
        run(record -> { });
        untilHandled("1");
        redeliver("c", 1, 2);
        untilHandled("1", "2");
        consumer.close();
        assertEquals(List.of("c-1", "c-2"), settled("ack", "ack_id"));
        assertEquals(List.of(), settled("ack", "batch_id"));
    }

    /** Retries record 1 while a request waits for its answer. Record 1 is redelivered before the retry is sent. */
    private Iterator<Batch> retryBeforeItIsSent(String answerToTheRetry) throws Exception {
        repeat("drop", ScriptedSidecar.OK);
        Function<ScriptedSidecar.Request, String> others = sidecar.settleAnswer;
        sidecar.settleAnswer = request -> request.has("retry") ? answerToTheRetry : others.apply(request);
        sidecar.deliver("b", 1, 2);
        Iterator<Batch> batches = batches(2);
        Batch first = batches.next();
        first.records().get(1).drop();
        untilSettled("drop", "ack_id", "b-2");
        first.records().get(0).retry();
        redeliver("c", 1);
        untilReceived();
        answer.countDown();
        untilRetried(1);
        return batches;
    }

    @Test
    void retry_thatIsNotSent_retriesTheRedelivery() throws Exception {
        Iterator<Batch> batches = retryBeforeItIsSent(ScriptedSidecar.OK);
        barrierOfTheRetry();
        redeliver("d", 1, 3);
        assertEquals(List.of("1", "3"), batches.next().records().stream().map(ConsumerFixture::number).toList());
        assertEquals(List.of("c-1"), settled("retry", "ack_id"));
    }

    @Test
    void retry_ofTheRedelivery_thatIsRefused_holdsNothingBack() throws Exception {
        Iterator<Batch> batches = retryBeforeItIsSent(ScriptedSidecar.refused("c-1", "MALFORMED"));
        barrierOfTheRetry();
        redeliver("d", 3, 4);
        assertEquals(List.of("3", "4"), batches.next().records().stream().map(ConsumerFixture::number).toList());
    }

    @Test
    void record_retriedAfterItsRedelivery_isHandedOutAgain() throws Exception {
        sidecar.deliver("b", 1);
        Iterator<Batch> batches = batches(1);
        Batch first = batches.next();
        redeliver("c", 1);
        untilReceived();
        first.retry();
        untilSettled("retry", "ack_id", "c-1");
        barrierOfTheRetry();
        sidecar.stream.record("d", 1, "k", 3);
        assertEquals(3, batches.next().records().get(0).attempt());
    }

    @Test
    void batch_ofWhichTheAppHasARecord_isNotAcknowledgedWhole() throws Exception {
        sidecar.deliver("b", 1, 2);
        List<SidecarRecord> records = batches(2).next().records();
        redeliver("c", 2);
        redeliver("d", 3);
        untilReceived();
        records.get(0).ack();
        untilSettled("ack", "ack_id", "b-1");
        records.get(1).ack();
        untilSettled("ack", "batch_id", "c");
        assertEquals(List.of("c"), settled("ack", "batch_id"));
    }

    @Test
    void batch_withAnEventBetweenItsRecords_isNotAcknowledgedBeforeTheLastOne() throws Exception {
        sidecar.deliver("b", 1);
        build(sidecar.consumer());
        run(record -> {
            if (number(record).equals("2"))
                release.await();
        });
        untilHandled("1");
        sidecar.stream.barrier("1");
        sidecar.stream.record("b", 2, "k", 1);
        sidecar.stream.record("c", 3, "k", 1);
        untilHandled("1", "2");
        untilSettled("ack", "ack_id", "b-1");
        assertEquals(List.of(), settled("ack", "batch_id"));
        release.countDown();
        untilSettled("ack", "ack_id", "c-3");
        Eventually.until("all of the batch is acknowledged",
                () -> settled("ack", "batch_id").contains("b") || settled("ack", "ack_id").contains("b-2"));
    }
}
