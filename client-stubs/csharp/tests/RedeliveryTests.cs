// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>Retries with their barriers, and redeliveries in a later session.</summary>
    [TestFixture]
    [Timeout(120000)]
    public partial class RedeliveryTests
    {
        private readonly ConcurrentQueue<ConsumerEvent> _events = new ConcurrentQueue<ConsumerEvent>();
        private ScriptedSidecar _sidecar;

        /// <summary>Heartbeats that were sent; <see cref="ScriptedSidecar.Deliver"/> sends the first.</summary>
        private int _heartbeats;

        [SetUp]
        public void Begin()
        {
            _sidecar = new ScriptedSidecar();
            _heartbeats = 1;
            while (_events.TryDequeue(out _))
                continue;
        }

        [TearDown]
        public void End() => _sidecar.Dispose();

        [Test]
        public void records_behind_an_accepted_retry_are_dropped_before_the_barrier()
        {
            _sidecar.Deliver("b", 1, 2, 3);
            using (var running = Run(FailOnce))
            {
                UntilRetries(1);
                running.UntilHandled(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                for (int number = 1; number <= 4; number++)
                    _sidecar.Stream.Record("c", number, number < 4 ? 2 : 1);
                running.UntilHandled(1, 1, 2, 3, 4);
            }
        }

        [Test]
        public void retry_that_is_answered_after_its_redeliveries_keeps_the_order()
        {
            using (var answer = new ManualResetEventSlim())
            {
                _sidecar.SettleAnswer = request =>
                {
                    answer.Wait();
                    return ScriptedSidecar.Ok;
                };
                _sidecar.Deliver("b", 1, 2);
                using (var running = Run(FailOnce))
                {
                    UntilRetries(1);
                    _sidecar.Stream.Barrier(BarrierOf(0));
                    Redeliver("c", 2, 1, 2);
                    answer.Set();
                    running.UntilHandled(1, 1, 2);
                    UntilSettled("ack", "c-2");
                }
            }
        }

        [Test]
        public void retry_holds_its_lane_only()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1, lane: 0);
                open.Record("b", 2, lane: 0);
                open.Record("b", 3, lane: 7);
                open.Stay();
            });
            using (var running = Run(FailOnce, 2))
            {
                UntilRetries(1);
                Eventually.Until("the other lane", () => running.Handled.Contains("1003"));
                CollectionAssert.DoesNotContain(running.Handled, "1002");
                _sidecar.Stream.Barrier(BarrierOf(0));
                _sidecar.Stream.Record("c", 1, 2, 0);
                _sidecar.Stream.Record("c", 2, 2, 0);
                Eventually.Until("the lane", () => running.Handled.Count == 4);
                CollectionAssert.AreEqual(new[] { "1001", "1002" }, running.Handled.Skip(2));
            }
        }

        [Test]
        public void other_shards_are_read_while_a_retry_waits()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1);
                open.Record("c", 2, shard: "shard-1");
                open.Stay();
            });
            using (var running = Run(FailOnce))
                running.UntilHandled(1, 2);
        }

        /// <summary>SETTLED: another delivery of the record was settled.</summary>
        [TestCase("MALFORMED")]
        [TestCase("SETTLED")]
        public void records_behind_a_refused_retry_are_handed_out(string reason)
        {
            _sidecar.SettleAnswer = request =>
                request.Has("retry") ? ScriptedSidecar.Refused("b-1", reason) : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            using (var running = Run(FailOnce))
            {
                Eventually.Until("the refusal", () => running.Consumer.Failed == 1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                running.UntilHandled(1, 2);
            }
        }

        [Test]
        public void retry_without_order_holds_nothing()
        {
            _sidecar.Deliver("b", 1, 2);
            using (var running = Run(FailOnce, 1, options => options.Ordering = Ordering.None))
                running.UntilHandled(1, 2);
        }

        [Test]
        public void records_of_one_lane_are_handled_one_after_the_other()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1, lane: 4);
                open.Record("b", 2, lane: 4);
                open.Record("b", 3, lane: 5);
                open.Stay();
            });
            var release = new TaskCompletionSource<bool>();
            Func<Record, Task> handler = record => record.SequenceNumber == "1001" ? release.Task : Task.CompletedTask;
            using (var running = Run(handler, 3))
            {
                UntilSettled("ack", "b-3");
                CollectionAssert.DoesNotContain(running.Handled, "1002");
                release.SetResult(true);
                UntilSettled("ack", "b-2");
            }
        }

        [Test]
        public void barrier_of_a_repeated_request_resolves_no_later_retry()
        {
            int requests = 0;
            _sidecar.SettleAnswer = request =>
                Interlocked.Increment(ref requests) == 1 ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            Func<Record, Task> handler = record => record.Attempt < 3 && record.SequenceNumber == "1001"
                ? throw new InvalidOperationException("twice")
                : Task.CompletedTask;
            using (var running = Run(handler))
            {
                UntilRetries(2);
                _sidecar.Stream.Barrier(BarrierOf(0));
                _sidecar.Stream.Barrier(BarrierOf(1));
                _sidecar.Stream.Record("c", 1, 2);
                _sidecar.Stream.Record("c", 2);
                UntilRetries(3);
                _sidecar.Stream.Heartbeat();
                UntilEvents("heartbeat", 2);
                _sidecar.Stream.Barrier(BarrierOf(2));
                _sidecar.Stream.Record("d", 1, 3);
                _sidecar.Stream.Record("d", 2);
                running.UntilHandled(1, 1, 1, 2);
                UntilSettled("ack", "d-2");
            }
        }

        [Test]
        public void outcome_of_a_running_handler_settles_the_redelivery()
        {
            _sidecar.Deliver("b", 1, 2);
            _sidecar.Deliver("c", 1, 2);
            var release = new TaskCompletionSource<bool>();
            Func<Record, Task> handler = record => record.SequenceNumber == "1001" ? release.Task : Task.CompletedTask;
            using (var running = Run(handler))
            {
                running.UntilHandled(1);
                _sidecar.Stream.Break();
                UntilEvents("heartbeat", 2);
                release.SetResult(true);
                running.UntilHandled(1, 2);
                UntilSettled("ack", "c-1");
                UntilSettled("ack", "c-2");
                Assert.AreEqual(0, running.Consumer.Stale);
            }
            CollectionAssert.DoesNotContain(_sidecar.Settled("ack", "ack_id"), "b-1");
        }

        [Test]
        public void outcome_between_the_sessions_settles_the_redelivery()
        {
            using (var next = new ManualResetEventSlim())
            {
                _sidecar.Deliver("b", 1);
                _sidecar.Scripts.Add(open =>
                {
                    open.Begin();
                    next.Wait();
                    open.Record("c", 1);
                    open.Record("c", 2);
                    open.Stay();
                });
                var release = new TaskCompletionSource<bool>();
                Func<Record, Task> handler = async record =>
                {
                    await release.Task;
                    throw new InvalidOperationException("between");
                };
                using (var running = Run(handler))
                {
                    running.UntilHandled(1);
                    _sidecar.Stream.Break();
                    UntilEvents("session", 2);
                    release.SetResult(true);
                    next.Set();
                    UntilSettled("retry", "c-1");
                    running.UntilHandled(1);
                    Assert.IsNotNull(BarrierOf(0));
                    Assert.AreEqual(0, running.Consumer.Stale);
                }
            }
        }

        [Test]
        public void acknowledgement_that_was_not_sent_settles_the_redelivery()
        {
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c", 1, 2);
            Action<ConsumerOptions> configure = options => options.AckInterval = TimeSpan.FromMinutes(1);
            using (var running = Run(record => Task.CompletedTask, 1, configure))
            {
                running.UntilHandled(1);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2);
            }
            CollectionAssert.AreEqual(new[] { "c-1", "c-2" }, _sidecar.Settled("ack", "ack_id"));
        }

        [Test]
        public void outcome_that_was_not_confirmed_settles_the_redelivery()
        {
            _sidecar.SettleAnswer = request =>
                request.Body.Contains("b-1") ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c", 1, 2);
            using (var running = Run(record => Task.CompletedTask))
            {
                Eventually.Until("a request without an answer", () => _sidecar.Settles.Count >= 1);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2);
                UntilSettled("ack", "c-1");
                UntilSettled("ack", "c-2");
                Assert.AreEqual(0, running.Consumer.Stale);
            }
        }

        [TestCase(true)]
        [TestCase(false)]
        public void outcome_that_two_sessions_did_not_confirm_settles_the_redelivery(bool isRedelivered)
        {
            _sidecar.SettleAnswer = request =>
                request.Body.Contains("d-") ? ScriptedSidecar.Ok : ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c", isRedelivered ? new[] { 1 } : new int[0]);
            _sidecar.Deliver("d", 1, 2);
            using (var running = Run(Drop))
            {
                Eventually.Until("a request without an answer", () => _sidecar.Settles.Count >= 1);
                _sidecar.Stream.Break();
                UntilEvents("heartbeat", 2);
                if (isRedelivered)
                    UntilSettled("drop", "c-1");
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2);
                UntilSettled("drop", "d-1");
            }
        }

        [Test]
        public void outcome_in_a_silent_session_settles_the_redelivery_in_the_next()
        {
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c");
            _sidecar.Deliver("d", 1, 2);
            var release = new TaskCompletionSource<bool>();
            Func<Record, Task> handler = record => record.SequenceNumber == "1001" ? release.Task : Task.CompletedTask;
            using (var running = Run(handler))
            {
                running.UntilHandled(1);
                _sidecar.Stream.Break();
                UntilEvents("heartbeat", 2);
                release.SetResult(true);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2);
                UntilSettled("ack", "d-1");
                Assert.AreEqual(0, running.Consumer.Stale);
            }
        }

        [Test]
        public void redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed()
        {
            _sidecar.SettleAnswer = request => ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1);
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("c", 1, isRedriven: true);
                open.Stay();
            });
            using (var running = Run(Drop))
            {
                Eventually.Until("a request without an answer", () => _sidecar.Settles.Count >= 1);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 1);
            }
        }

        [Test]
        public void outcome_is_forgotten_after_a_session_with_later_records()
        {
            _sidecar.SettleAnswer = request => ScriptedSidecar.NoAnswer;
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c", 2);
            _sidecar.Deliver("d", 1);
            using (var running = Run(Drop))
            {
                Eventually.Until("a request without an answer", () => _sidecar.Settles.Count >= 1);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2);
                _sidecar.Stream.Break();
                running.UntilHandled(1, 2, 1);
            }
        }

        [Test]
        public void outcome_of_the_last_delivery_in_a_session_settles_the_redelivery()
        {
            _sidecar.SettleAnswer = request =>
                request.Body.Contains("b-1") ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("d", 1, 2);
            var release = new TaskCompletionSource<bool>();
            Func<Record, Task> handler = record => record.Attempt > 1 ? release.Task : FailOnce(record);
            using (var running = Run(handler))
            {
                UntilSettled("retry", "b-1");
                Redeliver("c", 2, 1);
                running.UntilHandled(1, 1);
                _sidecar.Stream.Break();
                UntilEvents("session", 2);
                release.SetResult(true);
                running.UntilHandled(1, 1, 2);
                UntilSettled("ack", "d-1");
            }
        }

        [Test]
        public void retry_takes_no_earlier_redelivery_back()
        {
            _sidecar.Deliver("b", 1, 2);
            using (var consumer = _sidecar.Consumer())
            {
                var batch = consumer.NextBatchAsync(2, TimeSpan.FromMinutes(1)).GetAwaiter().GetResult();
                batch[0].Retry();
                UntilRetries(1);
                _sidecar.Stream.Barrier(BarrierOf(0));
                _sidecar.Stream.Record("c", 1, 2);
                batch[1].Retry();
                UntilRetries(2);
                _sidecar.Stream.Barrier(BarrierOf(1));
                _sidecar.Stream.Record("c", 2, 2);
                batch = consumer.NextBatchAsync(2, TimeSpan.FromMinutes(1)).GetAwaiter().GetResult();
                CollectionAssert.AreEqual(new[] { "1001", "1002" }, batch.Select(record => record.SequenceNumber));
            }
        }

        [Test]
        public void retry_that_was_not_confirmed_holds_its_lane_in_the_next_session()
        {
            _sidecar.SettleAnswer = request =>
                request.Body.Contains("b-1") ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            _sidecar.Deliver("c", 1, 2);
            using (var running = Run(FailOnce, 4))
            {
                Eventually.Until("a request without an answer", () => _sidecar.Settles.Count >= 1);
                _sidecar.Stream.Break();
                UntilEvents("heartbeat", 2);
                UntilSettled("retry", "c-1");
                running.UntilHandled(1);
                _sidecar.Stream.Barrier(_sidecar.SettlesWith("retry").Last().Barrier);
                _sidecar.Stream.Record("d", 1, 3);
                _sidecar.Stream.Record("d", 2, 2);
                running.UntilHandled(1, 1, 2);
            }
        }

        [Test]
        public void record_that_no_handler_has_begun_is_dropped_with_its_connection()
        {
            _sidecar.Deliver("b", 1, 2);
            var release = new TaskCompletionSource<bool>();
            using (var running = Run(record => release.Task))
            {
                running.UntilHandled(1);
                _sidecar.Stream.Break();
                UntilEvents("disconnected", 1);
                release.SetResult(true);
                UntilSettled("ack", "b-1");
                running.UntilHandled(1);
                _sidecar.Deliver("c", 2);
                running.UntilHandled(1, 2);
            }
        }

        [Test]
        public void lost_lease_takes_the_records_that_no_handler_has_begun()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1);
                open.Record("b", 2);
                open.Record("c", 3, shard: "shard-1");
                open.Stay();
            });
            var release = new TaskCompletionSource<bool>();
            Func<Record, Task> handler = record => record.SequenceNumber == "1001" ? release.Task : Task.CompletedTask;
            using (var running = Run(handler))
            {
                running.UntilHandled(1);
                _sidecar.Stream.LeaseLost("shard-0");
                UntilEvents("lease_lost", 1);
                release.SetResult(true);
                running.UntilHandled(1, 3);
            }
        }

        private static Task Drop(Record record)
        {
            record.Drop();
            return Task.CompletedTask;
        }

        private static Task FailOnce(Record record) => record.SequenceNumber == "1001" && record.Attempt == 1
            ? throw new InvalidOperationException("once")
            : Task.CompletedTask;

        private RunningConsumer Run(
            Func<Record, Task> handler, int concurrency = 1, Action<ConsumerOptions> configure = null)
        {
            return new RunningConsumer(
                _sidecar.Consumer(options =>
                {
                    options.OnEvent = _events.Enqueue;
                    configure?.Invoke(options);
                }),
                handler,
                concurrency);
        }

        private string BarrierOf(int retry) => _sidecar.SettlesWith("retry")[retry].Barrier;

        private void UntilRetries(int count) =>
            Eventually.Until(count + " retries", () => _sidecar.SettlesWith("retry").Count == count);

        private void UntilEvents(string type, int count) =>
            Eventually.Until(count + " " + type, () => _events.Count(control => control.Type == type) == count);

        private void UntilSettled(string outcome, string ackId)
        {
            string batchId = ackId.Split('-')[0];
            Eventually.Until(
                outcome + " of " + ackId,
                () => _sidecar.Settled(outcome, "ack_id").Contains(ackId) ||
                    _sidecar.Settled(outcome, "batch_id").Contains(batchId));
        }
    }
}
