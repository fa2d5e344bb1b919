// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>Redeliveries within a session.</summary>
    public partial class RedeliveryTests
    {
        /// <summary>What the sidecar answers to a settle request.</summary>
        private volatile string _answer;

        [TestCase("EXPIRED", false)]
        [TestCase("FENCED", false)]
        [TestCase("EXPIRED", true)]
        public void repeated_retry_that_is_refused_before_the_redelivery_counts_as_accepted(string reason, bool isBusy)
        {
            using (var consumer = ConsumerWithUnansweredRetry(isBusy ? ScriptedSidecar.Busy : ScriptedSidecar.NoAnswer))
            {
                _sidecar.Stream.Barrier(BarrierOf(0));
                RefuseRepetition(reason);
                Redeliver("c", 2, 1, 2, 3);
                AssertNext(consumer, "1001/2", "1002/2", "1003/2");
                AssertNothingFailed(consumer);
            }
        }

        [Test]
        public void repeated_retry_that_is_refused_after_the_redelivery_counts_as_accepted()
        {
            using (var consumer = ConsumerWithUnansweredRetry())
            {
                _sidecar.Stream.Barrier(BarrierOf(0));
                Redeliver("c", 2, 1, 2, 3);
                RefuseRepetition("EXPIRED");
                AssertNext(consumer, "1001/2", "1002/2", "1003/2");
                AssertNothingFailed(consumer);
            }
        }

        [Test]
        public void retry_that_a_kept_connection_repeats_counts_as_accepted()
        {
            int retries = 0;
            string answer = ScriptedSidecar.Refused("b-2", "EXPIRED");
            Func<string> retried = () => Interlocked.Increment(ref retries) == 1 ? ScriptedSidecar.NoAnswer : answer;
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = Open())
            {
                _sidecar.SettleAnswer = request => request.Has("retry") ? retried() : ScriptedSidecar.Ok;
                Next(consumer).Drop();
                UntilEvents("heartbeat", 1);
                Eventually.Until("the connection is open", () => _sidecar.Settles.Count == 1);
                Next(consumer).Retry();
                Eventually.Until("the retry is repeated", () => _sidecar.Settles.Count == 3);
                _sidecar.Stream.Barrier(BarrierOf(0));
                Redeliver("c", 2, 2, 3);
                AssertNext(consumer, "1002/2", "1003/2");
                AssertNothingFailed(consumer);
            }
        }

        [Test]
        public void repeated_retry_of_a_malformed_id_counts_as_refused()
        {
            using (var consumer = ConsumerWithUnansweredRetry())
            {
                RefuseRepetition("MALFORMED");
                Eventually.Until("the refusal is counted", () => consumer.Failed == 1);
                Assert.IsTrue(IsHeld(consumer));
                _sidecar.Stream.Barrier(BarrierOf(0));
                AssertNext(consumer, "1002/1", "1003/1");
                UntilEvents("settle_failed", 1);
            }
        }

        /// <summary>The sidecar accepted the first request, wrote its barrier, and was restarted.</summary>
        [Test]
        public void repeated_retry_of_an_unknown_id_holds_its_lane_until_the_next_session()
        {
            using (var consumer = ConsumerWithUnansweredRetry())
            {
                _sidecar.Stream.Barrier(BarrierOf(0));
                UntilReceived();
                RefuseRepetition("UNKNOWN");
                Eventually.Until("the refusal is counted", () => consumer.Failed == 1);
                Assert.IsTrue(IsHeld(consumer));
                _sidecar.Deliver("c", 1, 2, 3);
                _sidecar.Stream.Break();
                AssertNext(consumer, "1001/1", "1002/1", "1003/1");
            }
        }

        /// <summary>The ack deadline has passed: all records are redelivered.</summary>
        [Test]
        public void first_retry_that_is_expired_waits_for_the_redelivery()
        {
            using (var consumer = ConsumerWithUnansweredRetry(ScriptedSidecar.Refused("b-1", "EXPIRED")))
            {
                Assert.IsTrue(IsHeld(consumer));
                Redeliver("c", 2, 1, 2, 3);
                _sidecar.Stream.Barrier(BarrierOf(0));
                AssertNext(consumer, "1001/2", "1002/2", "1003/2");
                AssertNothingFailed(consumer);
            }
        }

        [TestCase(409, "session-fenced")]
        [TestCase(410, "session-expired")]
        public void retry_of_an_ended_session_waits_for_the_next(int status, string code)
        {
            using (var consumer = ConsumerWithUnansweredRetry(ScriptedSidecar.Problem(status, code)))
            {
                Eventually.Until("the retry is stale", () => consumer.Stale == 1);
                Assert.IsTrue(IsHeld(consumer));
                _sidecar.Deliver("c", 1, 2);
                _sidecar.Stream.Break();
                AssertNext(consumer, "1001/1", "1002/1");
            }
        }

        /// <summary>An ack deadline has passed. The app has record 1.</summary>
        [TestCase(Ordering.Shard, "1003/2", "1005/2")]
        [TestCase(Ordering.Key, "1002/1", "1004/1", "1003/2", "1005/2")]
        [TestCase(Ordering.None, "1002/1", "1003/1", "1004/1", "1005/1", "1003/2", "1005/2")]
        public void redelivery_replaces_the_records_that_wait(Ordering ordering, params string[] wanted)
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                for (int number = 1; number <= 5; number++)
                    open.Record("b", number, lane: number % 2);
                open.Heartbeat();
                open.Stay();
            });
            using (var consumer = Open(options => options.Ordering = ordering))
            {
                Next(consumer);
                UntilEvents("heartbeat", 1);
                if (ordering == Ordering.Shard)
                    AssertNext(consumer, "1002/1");
                _sidecar.Stream.Record("c", 3, 2, 1);
                _sidecar.Stream.Record("c", 5, 2, 1);
                UntilReceived();
                CollectionAssert.AreEquivalent(wanted, wanted.Select(name => NameOf(Next(consumer))).ToList());
                Assert.IsTrue(IsHeld(consumer));
            }
        }

        [Test]
        public void redelivery_of_a_record_that_the_app_has_replaces_the_later_ones()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = Open())
            {
                var record = Next(consumer);
                UntilEvents("heartbeat", 1);
                Redeliver("c", 2, 1);
                Redeliver("d", 2, 2, 3);
                record.Drop();
                AssertNext(consumer, "1002/2", "1003/2");
                UntilSettled("drop", "c-1");
            }
        }

        [Test]
        public void repeated_drop_that_is_expired_counts_as_refused()
        {
            _answer = ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                Next(consumer).Drop();
                UntilSettled("drop", "b-1");
                _answer = ScriptedSidecar.Refused("b-1", "EXPIRED");
                Eventually.Until("the refusal is counted", () => consumer.Failed == 1);
            }
        }

        [Test]
        public void redelivery_before_the_barrier_is_not_taken_back()
        {
            using (var consumer = ConsumerWithUnansweredRetry())
            {
                Redeliver("c", 2, 1, 2, 3);
                RefuseRepetition("EXPIRED");
                _sidecar.Stream.Barrier(BarrierOf(0));
                UntilReceived();
                AssertNext(consumer, "1001/2", "1002/2", "1003/2");
            }
        }

        [TestCase(Ordering.Shard)]
        [TestCase(Ordering.None)]
        public void redelivery_of_a_retried_record_is_handed_out_before_the_answer(Ordering ordering)
        {
            using (var consumer = ConsumerWithUnansweredRetry(configure: options => options.Ordering = ordering))
            {
                Redeliver("c", 2, 1);
                if (ordering == Ordering.None)
                    AssertNext(consumer, "1002/1", "1003/1");
                AssertNext(consumer, "1001/2");
            }
        }

        /* Begins a loop, as ReadAllAsync and ReadBatchesAsync of .NET 8 do. */
        private static void BeginLoop(Consumer consumer) => ((ILoop)consumer).Begin();

        [Test]
        public void records_of_a_loop_that_was_left_are_handed_out_by_the_next_loop()
        {
            _sidecar.Deliver("b", 1, 2, 3, 4, 5);
            using (var consumer = Open())
            {
                var batch = NextBatch(consumer, 4);
                batch[1].Drop();
                BeginLoop(consumer);
                AssertNext(consumer, "1001/1");
                BeginLoop(consumer);
                batch[3].Drop(); /* It waits for its turn. */
                AssertNext(consumer, "1001/1", "1003/1", "1005/1");
                UntilSettled("ack", "b-3");
            }
        }

        [Test]
        public void records_of_a_loop_that_was_left_are_handed_out_once_after_their_redelivery()
        {
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open())
            {
                NextBatch(consumer, 2);
                Redeliver("c", 2, 1, 2, 3);
                BeginLoop(consumer);
                AssertNext(consumer, "1001/1", "1002/1", "1003/2");
                UntilSettled("ack", "c-1");
            }
        }

        [Test]
        public void record_of_a_lost_lease_is_not_handed_out_by_the_next_loop()
        {
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                Next(consumer);
                _sidecar.Stream.LeaseLost("shard-0");
                _sidecar.Stream.Record("c", 2, epoch: 2);
                UntilReceived();
                BeginLoop(consumer);
                AssertNext(consumer, "1002/1");
            }
        }

        [Test]
        public void record_given_back_after_an_accepted_retry_waits_for_its_redelivery()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open())
            {
                var batch = NextBatch(consumer, 2);
                batch[0].Retry();
                UntilRetries(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                UntilReceived();
                batch[1].Extend(TimeSpan.FromMinutes(1));
                UntilSettled("extend", "b-2"); /* The retry was answered before. */
                BeginLoop(consumer);
                Assert.IsTrue(IsHeld(consumer));
                Redeliver("c", 2, 1, 2);
                AssertNext(consumer, "1001/2", "1002/1");
            }
        }

        [Test]
        public void records_given_back_wait_for_their_redelivery_after_that_of_an_earlier_one()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = Open())
            {
                var batch = NextBatch(consumer, 3);
                Redeliver("c", 2, 1);
                BeginLoop(consumer);
                AssertNext(consumer, "1001/1");
                Assert.IsTrue(IsHeld(consumer));
                _answer = ScriptedSidecar.NoAnswer;
                batch[2].Drop();
                Redeliver("d", 2, 2, 3, 4);
                _answer = ScriptedSidecar.Ok;
                AssertNext(consumer, "1002/1", "1004/2");
                UntilSettled("drop", "d-3");
                UntilSettled("ack", "d-2");
            }
        }

        [Test]
        public void redelivery_replaces_a_redelivered_record_that_was_given_back()
        {
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                Next(consumer);
                Redeliver("c", 2, 1);
                BeginLoop(consumer);
                Redeliver("d", 3, 1);
                AssertNext(consumer, "1001/3");
                Assert.IsTrue(IsHeld(consumer));
            }
        }

        [Test]
        public void record_given_back_after_its_connection_is_lost_waits_for_its_redelivery()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                Next(consumer);
                UntilEvents("heartbeat", 1);
                _sidecar.Stream.Break();
                UntilEvents("disconnected", 1);
                BeginLoop(consumer);
                Assert.IsTrue(IsHeld(consumer));
                _sidecar.Deliver("c", 1, 2);
                AssertNext(consumer, "1001/1", "1002/1");
                UntilSettled("ack", "c-1");
            }
        }

        [Test]
        public void redelivery_of_another_retried_record_does_not_end_a_hold()
        {
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open())
            {
                _sidecar.SettleAnswer = request =>
                    request.Body.Contains("b-1") ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
                var batch = NextBatch(consumer, 2);
                batch[1].Retry();
                UntilRetries(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                batch[0].Retry();
                UntilSettled("retry", "b-1");
                Redeliver("c", 2, 2);
                Redeliver("c", 1, 3);
                Assert.IsFalse(consumer.NextAsync().IsCompleted);
            }
        }

        [Test]
        public void retry_takes_back_no_record_of_the_next_lease_epoch()
        {
            using (var consumer = ConsumerWithUnansweredRetry())
            {
                _sidecar.Stream.LeaseLost("shard-0");
                _sidecar.Stream.Record("c", 2, epoch: 2);
                RefuseRepetition("FENCED");
                _sidecar.Stream.Barrier(BarrierOf(0));
                UntilReceived();
                Assert.AreEqual(2, Next(consumer).Epoch);
            }
        }

        /// <summary>The app has record 1 when its lease is lost. Another sidecar has settled the record.</summary>
        [Test]
        public void retry_after_a_lost_lease_takes_nothing_of_the_next_lease_back()
        {
            _answer = ScriptedSidecar.Refused("b-1", "FENCED");
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                var record = Next(consumer);
                _sidecar.Stream.LeaseLost("shard-0");
                _sidecar.Stream.Record("c", 2, epoch: 2);
                UntilReceived();
                record.Retry();
                UntilRetries(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                UntilReceived();
                AssertNext(consumer, "1002/1");
                AssertNothingFailed(consumer);
            }
        }

        [Test]
        public void rest_of_a_batch_is_handed_out_once_after_a_retry_of_its_first_record()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = Open())
            {
                NextBatch(consumer, 3)[0].Retry();
                UntilRetries(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                Redeliver("c", 2, 1, 2, 3);
                Redeliver("d", 1, 4, 5);
                AssertAre(NextBatch(consumer, 3), "1001/2", "1004/1", "1005/1");
                UntilSettled("ack", "c-2");
                UntilSettled("ack", "c-3");
            }
            CollectionAssert.IsEmpty(_sidecar.Settled("ack", "batch_id"));
        }

        [Test]
        public void record_of_a_running_handler_is_handed_out_once()
        {
            _sidecar.Deliver("b", 1);
            var release = new TaskCompletionSource<bool>();
            using (var running = Run(record => release.Task, 2))
            {
                running.UntilHandled(1);
                Redeliver("c", 2, 1);
                Redeliver("d", 1, 2);
                release.SetResult(true);
                running.UntilHandled(1, 2);
                UntilSettled("ack", "c-1");
            }
            CollectionAssert.DoesNotContain(_sidecar.Settled("ack", "ack_id"), "b-1");
        }

        [Test]
        public void record_that_is_redelivered_twice_is_handed_out_once()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                var record = Next(consumer);
                Redeliver("c", 2, 1);
                Redeliver("d", 3, 1);
                Redeliver("e", 1, 2);
                record.Drop();
                UntilSettled("drop", "d-1");
                AssertNext(consumer, "1002/1");
            }
        }

        [Test]
        public void outcome_without_an_answer_settles_the_redelivery(
            [Values(Outcome.Ack, Outcome.Drop, Outcome.DeadLetter)] Outcome outcome)
        {
            string word = outcome == Outcome.DeadLetter ? "dead_letter" : outcome.ToString().ToLowerInvariant();
            _answer = ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                SettleBy(Next(consumer), outcome);
                UntilSettled(word, "b-1");
                Redeliver("c", 2, 1);
                Redeliver("d", 1, 2);
                _answer = ScriptedSidecar.Ok;
                AssertNext(consumer, "1002/1");
                UntilSettled(word, "c-1");
            }
        }

        [Test]
        public void acknowledgement_that_is_not_sent_settles_the_redelivery_in_the_session()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open(options => options.AckInterval = TimeSpan.FromHours(1)))
            {
                var batch = NextBatch(consumer, 2);
                batch[0].Ack();
                Redeliver("c", 2, 1);
                Redeliver("d", 1, 3);
                batch[1].Ack();
                AssertNext(consumer, "1003/1");
            }
            CollectionAssert.AreEqual(new[] { "b-2" }, _sidecar.Settled("ack", "ack_id"));
            CollectionAssert.AreEqual(new[] { "c" }, _sidecar.Settled("ack", "batch_id"));
        }

        [Test]
        public void retry_that_is_not_sent_retries_the_redelivery()
        {
            _answer = ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open())
            {
                var batch = NextBatch(consumer, 2);
                batch[1].Drop();
                UntilSettled("drop", "b-2");
                batch[0].Retry();
                Redeliver("c", 2, 1);
                Redeliver("d", 1, 3);
                _answer = ScriptedSidecar.Ok;
                UntilSettled("retry", "c-1");
                _sidecar.Stream.Barrier(BarrierOf(0));
                Redeliver("e", 3, 1);
                Redeliver("f", 2, 3);
                AssertAre(NextBatch(consumer, 2), "1001/3", "1003/2");
            }
            CollectionAssert.AreEqual(new[] { "c-1" }, _sidecar.Settled("retry", "ack_id"));
        }

        [Test]
        public void records_that_the_app_has_are_not_handed_out_again_by_the_next_lease_epoch()
        {
            DeliverWithShortDeadline(1, 2);
            using (var consumer = Open())
            {
                NextBatch(consumer, 2);
                _sidecar.Stream.LeaseLost("shard-0");
                _sidecar.Stream.Record("c", 1, epoch: 2);
                UntilReceived();
                UntilExtended(3);
                _sidecar.Stream.Record("d", 2, epoch: 2);
                _sidecar.Stream.Record("d", 3, epoch: 2);
                UntilReceived();
                AssertAre(NextBatch(consumer, 1), "1003/1");
                UntilSettled("ack", "c-1");
                UntilSettled("ack", "d-2");
            }
        }

        [Test]
        public void redelivery_is_extended_in_place_of_its_record()
        {
            DeliverWithShortDeadline(1);
            using (var consumer = Open())
            {
                Next(consumer);
                Redeliver("c", 2, 1);
                /* One may have been under way. */
                CollectionAssert.AreEqual(new[] { "c" }, UntilExtended(3).Skip(1).Distinct());
            }
        }

        [Test]
        public void batch_is_not_acknowledged_whole_while_the_app_has_a_record_of_it()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = Open(options => options.AckInterval = TimeSpan.FromHours(1)))
            {
                var batch = NextBatch(consumer, 2);
                Redeliver("c", 2, 2);
                Redeliver("d", 1, 3);
                batch.Ack();
            }
            CollectionAssert.AreEqual(new[] { "b-1" }, _sidecar.Settled("ack", "ack_id"));
            CollectionAssert.AreEqual(new[] { "c" }, _sidecar.Settled("ack", "batch_id"));
        }

        [Test]
        public void events_between_the_records_of_a_batch_do_not_end_it()
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            using (var consumer = Open())
            {
                Next(consumer).Ack();
                UntilSettled("ack", "b-1");
                _sidecar.Stream.Barrier("0");
                Redeliver("b", 1, 2);
                Redeliver("c", 1, 3);
                var batch = NextBatch(consumer, 2);
                batch[1].Ack();
                UntilSettled("ack", "c-3");
                CollectionAssert.IsEmpty(_sidecar.Settled("ack", "batch_id"));
                batch[0].Ack();
                UntilSettled("ack", "b-2");
                CollectionAssert.AreEqual(new[] { "b" }, _sidecar.Settled("ack", "batch_id"));
            }
        }

        private static void SettleBy(Record record, Outcome outcome)
        {
            if (outcome == Outcome.Ack)
                record.Ack();
            else if (outcome == Outcome.Drop)
                record.Drop();
            else
                record.DeadLetter();
        }

        private static Record Next(Consumer consumer) => ResultOf(consumer.NextAsync());

        private static Batch NextBatch(Consumer consumer, int count) =>
            ResultOf(consumer.NextBatchAsync(count, TimeSpan.FromHours(1)));

        private static T ResultOf<T>(Task<T> task)
        {
            Eventually.Until("a record or a batch", () => task.IsCompleted);
            return task.Result;
        }

        private static string NameOf(Record record) => record.SequenceNumber + "/" + record.Attempt;

        private static void AssertAre(IEnumerable<Record> records, params string[] wanted) =>
            CollectionAssert.AreEqual(wanted, records.Select(NameOf));

        /// <summary>Returns true if there is no record that the app may have. It ends the wait for one.</summary>
        private static bool IsHeld(Consumer consumer)
        {
            using (var limit = new CancellationTokenSource(200))
            {
                var next = consumer.NextAsync(limit.Token);
                Eventually.Until("a record, or the end of the wait", () => next.IsCompleted);
                return next.IsCanceled;
            }
        }

        private static void AssertNext(Consumer consumer, params string[] wanted) =>
            AssertAre(wanted.Select(name => Next(consumer)).ToList(), wanted);

        private void AssertNothingFailed(Consumer consumer)
        {
            Assert.AreEqual(0, consumer.Failed);
            CollectionAssert.DoesNotContain(_events.Select(control => control.Type), "settle_failed");
        }

        /// <summary>Returns a consumer whose settle requests are answered by <see cref="_answer"/>.</summary>
        private Consumer Open(Action<ConsumerOptions> configure = null)
        {
            _sidecar.SettleAnswer = request => _answer;
            return _sidecar.Consumer(options =>
            {
                options.OnEvent = _events.Enqueue;
                configure?.Invoke(options);
            });
        }

        /// <summary>Returns a consumer that has received records 1 to 3, and has sent a retry of record 1.</summary>
        private Consumer ConsumerWithUnansweredRetry(
            string answer = ScriptedSidecar.NoAnswer, Action<ConsumerOptions> configure = null)
        {
            _answer = answer;
            _sidecar.Deliver("b", 1, 2, 3);
            var consumer = Open(configure);
            Next(consumer).Retry();
            UntilEvents("heartbeat", 1);
            UntilSettled("retry", "b-1");
            return consumer;
        }

        private void RefuseRepetition(string reason)
        {
            int sent = _sidecar.Settles.Count;
            _answer = ScriptedSidecar.Refused("b-1", reason);
            Eventually.Until("the retry is repeated", () => _sidecar.Settles.Count > sent);
        }

        private void Redeliver(string batch, int attempt, params int[] numbers)
        {
            foreach (int number in numbers)
                _sidecar.Stream.Record(batch, number, attempt);
            UntilReceived();
        }

        /// <summary>Waits until the consumer has all that was written to the stream.</summary>
        private void UntilReceived()
        {
            _sidecar.Stream.Heartbeat();
            UntilEvents("heartbeat", ++_heartbeats);
        }

        private void DeliverWithShortDeadline(params int[] numbers)
        {
            _answer = ScriptedSidecar.Ok;
            _sidecar.Scripts.Add(open =>
            {
                open.Begin(ackDeadlineMs: 300);
                foreach (int number in numbers)
                    open.Record("b", number);
                open.Heartbeat();
                open.Stay();
            });
        }

        /// <summary>Waits for further extensions, and returns their batch_ids.</summary>
        private List<object> UntilExtended(int count)
        {
            int before = _sidecar.Settled("extend", "batch_id").Count;
            Func<List<object>> extended = () => _sidecar.Settled("extend", "batch_id").Skip(before).ToList();
            Eventually.Until("extensions", () => extended().Count >= count);
            return extended();
        }
    }
}
