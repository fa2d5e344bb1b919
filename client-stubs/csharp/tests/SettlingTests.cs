// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>Settlements and extensions.</summary>
    [TestFixture]
    [Timeout(120000)]
    public class SettlingTests
    {
        private static readonly Func<Record, Task> Done = record => Task.CompletedTask;
        private readonly ConcurrentQueue<ConsumerEvent> _events = new ConcurrentQueue<ConsumerEvent>();
        private ScriptedSidecar _sidecar;

        [SetUp]
        public void Begin()
        {
            _sidecar = new ScriptedSidecar();
            while (_events.TryDequeue(out _))
                continue;
        }

        [TearDown]
        public void End() => _sidecar.Dispose();

        [Test]
        public void batch_that_is_acknowledged_whole_is_one_item()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1);
                open.Heartbeat();
                open.Record("b", 2);
                open.Record("c", 3);
                open.Stay();
            });
            using (var running = Run(Done, options => options.AckInterval = TimeSpan.FromMinutes(1)))
                running.UntilHandled(1, 2, 3);
            CollectionAssert.AreEqual(new[] { "b" }, _sidecar.Settled("ack", "batch_id"));
            CollectionAssert.AreEqual(new[] { "c-3" }, _sidecar.Settled("ack", "ack_id"));
            Assert.AreEqual(1, _sidecar.Settles.Count);
        }

        [Test]
        public void batch_that_may_continue_is_acknowledged_by_record()
        {
            _sidecar.Deliver("b", 1);
            using (Run(Done))
                UntilSettled("ack", "ack_id", "b-1");
            Assert.IsEmpty(_sidecar.Settled("ack", "batch_id"));
        }

        [Test]
        public void outcomes_are_sent_with_their_reasons()
        {
            _sidecar.Deliver("b", 1, 2, 3, 4);
            Func<Record, Task> handler = record =>
            {
                if (record.SequenceNumber == "1001")
                    record.DeadLetter("no \"such\" customer\n");
                else if (record.SequenceNumber == "1002")
                    record.Drop();
                else if (record.SequenceNumber == "1003")
                    record.Retry(TimeSpan.FromMilliseconds(1500), "later");
                record.DeadLetter("the first outcome counts");
                record.Ack();
                return Task.CompletedTask;
            };
            using (Run(handler, options => options.Ordering = Ordering.None))
                UntilSettled("dead_letter", "ack_id", "b-4");
            CollectionAssert.AreEqual(new[] { "b-1", "b-4" }, _sidecar.Settled("dead_letter", "ack_id"));
            Assert.AreEqual("no \"such\" customer\n", _sidecar.Settled("dead_letter", "reason").First());
            CollectionAssert.AreEqual(new[] { "b-2" }, _sidecar.Settled("drop", "ack_id"));
            CollectionAssert.AreEqual(new[] { "b-3" }, _sidecar.Settled("retry", "ack_id"));
            Assert.AreEqual("later", _sidecar.Settled("retry", "reason").Single());
            Assert.AreEqual(1500, _sidecar.Settled("retry", "delay_ms").Single());
            Assert.IsEmpty(_sidecar.Settled("ack", "ack_id"));
        }

        [Test]
        public void reason_is_text_that_the_sidecar_takes()
        {
            _sidecar.Deliver("b", 1);
            Func<Record, Task> handler = record =>
            {
                record.DeadLetter("\0\udc00\ud83d\ude00" + new string('x', 2000));
                return Task.CompletedTask;
            };
            using (Run(handler))
                UntilSettled("dead_letter", "ack_id", "b-1");
            string reason = (string)_sidecar.Settled("dead_letter", "reason").Single();
            Assert.AreEqual("??\ud83d\ude00" + new string('x', 996), reason);
        }

        [Test]
        public void acknowledgements_leave_when_half_of_the_limit_waits()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin(maxInFlight: 4);
                open.Record("b", 1);
                open.Record("b", 2);
                open.Stay();
            });
            using (Run(Done, options => options.AckInterval = TimeSpan.FromMinutes(1)))
                UntilSettled("ack", "ack_id", "b-2");
        }

        [Test]
        public void request_has_at_most_1000_items()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin(maxInFlight: 10000);
                for (int number = 1; number <= 2500; number++)
                    open.Record("b", number);
                open.Stay();
            });
            using (var running = Run(Done, options => options.AckInterval = TimeSpan.FromMinutes(1)))
                Eventually.Until("all are handled", () => running.Handled.Count == 2500);
            CollectionAssert.AreEqual(
                new[] { 1000, 1000, 500 }, _sidecar.Settles.Select(request => request.Settlements.Count));
        }

        [Test]
        public void request_without_an_answer_is_repeated()
        {
            int requests = 0;
            _sidecar.SettleAnswer = request =>
                Interlocked.Increment(ref requests) == 1 ? ScriptedSidecar.NoAnswer : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            using (var running = Run(Done))
            {
                Eventually.Until("the repetition", () => _sidecar.Settles.Count == 2);
                Assert.AreEqual(0, running.Consumer.Stale);
            }
            Assert.AreEqual(_sidecar.Settles.First().Body, _sidecar.Settles.Last().Body);
        }

        [TestCase(429)]
        [TestCase(503)]
        public void request_that_is_refused_for_now_is_repeated(int status)
        {
            int requests = 0;
            _sidecar.SettleAnswer = request => Interlocked.Increment(ref requests) == 1
                ? ScriptedSidecar.Problem(status, "unavailable", "Retry-After: 1\r\n")
                : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1);
            using (Run(Done))
                Eventually.Until("the repetition", () => _sidecar.Settles.Count == 2);
        }

        [TestCase(409, "session-fenced")]
        [TestCase(410, "session-expired")]
        public void settlements_of_an_ended_session_are_counted(int status, string code)
        {
            _sidecar.SettleAnswer = request => ScriptedSidecar.Problem(status, code);
            _sidecar.Deliver("b", 1, 2);
            using (var running = Run(Done))
            {
                Eventually.Until("two are stale", () => running.Consumer.Stale == 2);
                Assert.AreEqual(0, running.Consumer.Failed);
            }
        }

        [Test]
        public void refused_request_ends_the_run()
        {
            _sidecar.SettleAnswer = request => ScriptedSidecar.Problem(401, "unauthenticated");
            _sidecar.Deliver("b", 1);
            using (var running = Run(Done))
                Assert.AreEqual(401, RefusalOf(running).Status);
        }

        [Test]
        public void refused_outcome_takes_no_acknowledgement_along()
        {
            _sidecar.SettleAnswer = request =>
                request.Has("dead_letter") ? ScriptedSidecar.Problem(400, "failed-precondition") : ScriptedSidecar.Ok;
            _sidecar.Deliver("b", 1, 2);
            Func<Record, Task> handler = record =>
            {
                if (record.SequenceNumber == "1002")
                    record.DeadLetter();
                return Task.CompletedTask;
            };
            using (var running = Run(handler, options => options.AckInterval = TimeSpan.FromMinutes(1)))
                Assert.AreEqual(400, RefusalOf(running).Status);
            CollectionAssert.AreEqual(new[] { "b-1" }, _sidecar.Settled("ack", "ack_id"));
        }

        [Test]
        public void refused_settlement_is_counted_and_reported()
        {
            _sidecar.SettleAnswer = request => ScriptedSidecar.Refused("b-1", "FENCED");
            _sidecar.Deliver("b", 1);
            using (var running = Run(Done))
            {
                Eventually.Until("the event", () => _events.Any(control => control.Type == "settle_failed"));
                Assert.AreEqual(1, running.Consumer.Failed);
            }
            var failed = _events.Single(control => control.Type == "settle_failed");
            Assert.AreEqual("FENCED", failed.Members["reason"]);
            Assert.AreEqual("the sentence", failed.Members["message"]);
        }

        [Test]
        public void persisted_acknowledgement_returns_the_answer()
        {
            _sidecar.SettleAnswer = request => !request.Body.Contains("\"wait\":\"persisted\"")
                ? ScriptedSidecar.Ok
                : ScriptedSidecar.Answer(200, "", "{\"ok\":1,\"failed\":[],\"persisted\":" +
                    (request.Body.Contains("b-1") ? "true" : "false") + ",\"positions\":[]}");
            _sidecar.Deliver("b", 1, 2);
            var answers = new ConcurrentQueue<bool>();
            using (Run(async record => answers.Enqueue(await record.AckPersistedAsync())))
                Eventually.Until("two answers", () => answers.Count == 2);
            CollectionAssert.AreEqual(new[] { true, false }, answers);
        }

        [Test]
        public void extension_names_the_batch_and_ends_with_max_processing()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin(ackDeadlineMs: 300);
                open.Record("b", 1);
                open.Stay();
            });
            var release = new TaskCompletionSource<bool>();
            Action<ConsumerOptions> configure = options => options.MaxProcessing = TimeSpan.FromSeconds(5);
            using (var running = Run(record => release.Task, configure))
            {
                running.UntilHandled(1);
                Eventually.Until("two extensions", () => _sidecar.Settled("extend", "batch_id").Count >= 2);
                Assert.AreEqual(300, _sidecar.Settled("extend", "delay_ms").First());
                long begun = Clock.NowMs;
                Eventually.Until("max_processing is over", () => Clock.NowMs - begun > 5000);
                int before = _sidecar.Settled("extend", "batch_id").Count;
                _sidecar.Stream.Record("c", 2);
                Eventually.Until("the next batch", () => _sidecar.Settled("extend", "batch_id").Count >= before + 2);
                CollectionAssert.AreEqual(
                    new[] { "c", "c" }, _sidecar.Settled("extend", "batch_id").Skip(before).Take(2));
                release.SetResult(true);
            }
        }

        [Test]
        public void redelivery_does_not_begin_max_processing_again()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin(ackDeadlineMs: 300);
                open.Record("b", 1);
                open.Stay();
            });
            var release = new TaskCompletionSource<bool>();
            Action<ConsumerOptions> configure = options => options.MaxProcessing = TimeSpan.FromSeconds(2);
            using (var running = Run(record => release.Task, configure))
            {
                running.UntilHandled(1);
                long begun = Clock.NowMs;
                Eventually.Until("max_processing is over", () => Clock.NowMs - begun > 2000);
                _sidecar.Stream.Record("c", 1, attempt: 2);
                _sidecar.Stream.Record("c", 2);
                Eventually.Until("the other record", () => _sidecar.Settled("extend", "ack_id").Contains("c-2"));
                CollectionAssert.DoesNotContain(_sidecar.Settled("extend", "ack_id"), "c-1");
                CollectionAssert.DoesNotContain(_sidecar.Settled("extend", "batch_id"), "c");
                release.SetResult(true);
            }
        }

        [Test]
        public void record_is_extended_when_the_app_asks_for_it()
        {
            _sidecar.Deliver("b", 1);
            Func<Record, Task> handler = record =>
            {
                record.Extend(TimeSpan.FromMinutes(5));
                return Task.Delay(Timeout.Infinite);
            };
            var running = Run(handler);
            UntilSettled("extend", "ack_id", "b-1");
            Assert.AreEqual(300000, _sidecar.Settled("extend", "delay_ms").Single());
            running.Consumer.Stop();
        }

        [Test]
        public void cancelled_run_waits_for_its_handlers()
        {
            _sidecar.Deliver("b", 1, 2);
            var release = new TaskCompletionSource<bool>();
            var begun = new TaskCompletionSource<bool>();
            using (var cancellation = new CancellationTokenSource())
            using (var consumer = _sidecar.Consumer())
            {
                Func<Record, CancellationToken, Task> handler = (record, token) =>
                {
                    begun.SetResult(true);
                    return release.Task;
                };
                var run = consumer.RunAsync(handler, 1, cancellation.Token);
                begun.Task.Wait();
                cancellation.Cancel();
                Assert.IsFalse(run.IsCompleted);
                release.SetResult(true);
                run.Wait();
            }
            CollectionAssert.AreEqual(new[] { "b-1" }, _sidecar.Settled("ack", "ack_id"));
            Assert.AreEqual(1, _sidecar.Deletes);
        }

        [Test]
        public void handler_that_is_cancelled_by_the_stop_gives_its_record_back()
        {
            _sidecar.Deliver("b", 1);
            var begun = new TaskCompletionSource<bool>();
            using (var consumer = _sidecar.Consumer())
            {
                Func<Record, CancellationToken, Task> handler = (record, token) =>
                {
                    begun.SetResult(true);
                    return Task.Delay(Timeout.Infinite, token);
                };
                var run = consumer.RunAsync(handler);
                begun.Task.Wait();
                consumer.Stop();
                run.Wait();
            }
            Assert.IsEmpty(_sidecar.Settles);
            Assert.AreEqual(1, _sidecar.Deletes);
        }

        [Test]
        public void failure_of_the_handler_is_the_reason_of_the_retry()
        {
            _sidecar.Deliver("b", 1);
            using (Run(record => throw new FormatException("the data are not JSON")))
                UntilSettled("retry", "ack_id", "b-1");
            Assert.AreEqual("FormatException: the data are not JSON", _sidecar.Settled("retry", "reason").Single());
        }

        [Test]
        public async Task left_loop_settles_nothing()
        {
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = _sidecar.Consumer())
            {
                await consumer.NextAsync();
                await consumer.NextAsync();
            }
            CollectionAssert.AreEqual(new[] { "b-1" }, _sidecar.Settled("ack", "ack_id"));
        }

        [Test]
        public async Task batch_is_acknowledged_when_the_next_one_is_asked_for()
        {
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = _sidecar.Consumer())
            {
                var batch = await consumer.NextBatchAsync(2, TimeSpan.FromMinutes(1));
                Assert.AreEqual(2, batch.Count);
                batch[0].Drop();
                batch = await consumer.NextBatchAsync(2, TimeSpan.FromMilliseconds(20));
                Assert.AreEqual("1003", batch.Single().SequenceNumber);
            }
            CollectionAssert.AreEqual(new[] { "b-2" }, _sidecar.Settled("ack", "ack_id"));
            CollectionAssert.AreEqual(new[] { "b-1" }, _sidecar.Settled("drop", "ack_id"));
        }

        [Test]
        public async Task cancelled_batch_keeps_its_records()
        {
            _sidecar.Deliver("b", 1);
            using (var consumer = _sidecar.Consumer(options => options.OnEvent = _events.Enqueue))
            using (var cancellation = new CancellationTokenSource())
            {
                var first = consumer.NextBatchAsync(2, TimeSpan.FromMinutes(1), cancellation.Token);
                Eventually.Until("the record is there", () => _events.Any(control => control.Type == "heartbeat"));
                cancellation.Cancel();
                Assert.Throws<TaskCanceledException>(() => first.GetAwaiter().GetResult());
                _sidecar.Stream.Record("b", 2);
                var batch = await consumer.NextBatchAsync(2, TimeSpan.FromMinutes(1));
                CollectionAssert.AreEqual(new[] { "1001", "1002" }, batch.Select(record => record.SequenceNumber));
            }
        }

        [Test]
        public async Task retried_batch_is_retried_from_its_end()
        {
            _sidecar.Deliver("b", 1, 2, 3);
            using (var consumer = _sidecar.Consumer())
                (await consumer.NextBatchAsync(3, TimeSpan.FromMinutes(1))).Retry(TimeSpan.FromMilliseconds(5), "all");
            CollectionAssert.AreEqual(new[] { "b-3", "b-2", "b-1" }, _sidecar.Settled("retry", "ack_id"));
        }

        [Test]
        public void second_run_is_refused()
        {
            _sidecar.Deliver("b", 1);
            using (var running = Run(Done))
            {
                Assert.Throws<InvalidOperationException>(
                    () => running.Consumer.RunAsync((record, token) => Done(record)));
                running.UntilHandled(1);
            }
        }

        private static SidecarException RefusalOf(RunningConsumer running) =>
            Assert.Throws<SidecarException>(() => running.Run.GetAwaiter().GetResult());

        private RunningConsumer Run(Func<Record, Task> handler, Action<ConsumerOptions> configure = null)
        {
            return new RunningConsumer(
                _sidecar.Consumer(options =>
                {
                    options.OnEvent = _events.Enqueue;
                    configure?.Invoke(options);
                }),
                handler);
        }

        private void UntilSettled(string outcome, string member, string id) =>
            Eventually.Until(outcome + " of " + id, () => _sidecar.Settled(outcome, member).Contains(id));
    }
}
