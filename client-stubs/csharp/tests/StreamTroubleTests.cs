// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>The stream in trouble.</summary>
    [TestFixture]
    [Timeout(120000)]
    public class StreamTroubleTests
    {
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

        [TestCase(400)]
        [TestCase(401)]
        [TestCase(403)]
        [TestCase(404)]
        public void refused_stream_throws(int status)
        {
            _sidecar.Scripts.Add(open => open.Answer(ScriptedSidecar.Problem(status, "some-code")));
            using (var consumer = Make())
            {
                var refusal = Assert.Throws<SidecarException>(() => Next(consumer));
                Assert.AreEqual(status, refusal.Status);
                Assert.AreEqual("some-code", refusal.Code);
                Assert.AreEqual(status + " the sentence", refusal.Message);
            }
            Assert.AreEqual(0, _sidecar.Deletes);
        }

        [Test]
        public void refused_stream_ends_the_run()
        {
            _sidecar.Scripts.Add(open => open.Answer(ScriptedSidecar.Problem(400, "invalid-argument")));
            using (var consumer = Make())
            {
                var run = consumer.RunAsync((record, token) => Task.CompletedTask, 4);
                Assert.AreEqual(400, Assert.Throws<SidecarException>(() => run.GetAwaiter().GetResult()).Status);
            }
        }

        [TestCase(429)]
        [TestCase(500)]
        [TestCase(502)]
        [TestCase(503)]
        [TestCase(504)]
        public void temporary_refusal_is_tried_again(int status)
        {
            ExpectRecordAfter(open => open.Answer(ScriptedSidecar.Problem(status, "unavailable")));
            Assert.AreEqual(status + " the sentence", Reason);
        }

        [Test]
        public void ordering_conflict_is_tried_again()
        {
            ExpectRecordAfter(open => open.Answer(ScriptedSidecar.Problem(409, "ordering-conflict")));
            Assert.AreEqual("409 the sentence", Reason);
        }

        [Test]
        public void retry_after_is_heeded()
        {
            ExpectRecordAfter(open => open.Answer(ScriptedSidecar.Problem(503, "unavailable", "Retry-After: 1\r\n")));
            Assert.GreaterOrEqual((long)Events("disconnected").Single().Members["retry_in_ms"], 1000);
        }

        [Test]
        public void answer_of_another_server_drops_the_connection()
        {
            ExpectRecordAfter(open => open.Answer("SSH-2.0-OpenSSH\r\n"));
            Assert.AreEqual("the answer is not HTTP/1.1", Reason);
        }

        [Test]
        public void dropped_connection_is_opened_again()
        {
            ExpectRecordAfter(open => open.Begin());
            Assert.AreEqual("the sidecar closed the connection", Reason);
        }

        [Test]
        public void missed_heartbeats_end_the_connection()
        {
            ExpectRecordAfter(open =>
            {
                open.Begin(heartbeatMs: 100);
                open.Stay();
            });
            Assert.AreEqual("no heartbeat", Reason);
        }

        [Test]
        public void malformed_message_drops_the_connection()
        {
            ExpectRecordAfter(open =>
            {
                open.Begin();
                open.Chunk(new byte[] { 3, 0x12, 0x7f, 1 });
                open.Stay();
            });
            Assert.AreEqual("a message of the stream has a malformed length", Reason);
        }

        [Test]
        public void message_above_32_MiB_drops_the_connection()
        {
            ExpectRecordAfter(open =>
            {
                open.Begin();
                open.Chunk(new byte[] { 0x81, 0x80, 0x80, 0x10 });
                open.Stay();
            });
            Assert.AreEqual("a message of the stream has more than 33554432 bytes", Reason);
        }

        [Test]
        public void message_in_many_chunks_is_read()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                foreach (byte part in new byte[] { 2, 0x1a, 0 })
                    open.Chunk(new[] { part });
                open.Record("b", 1);
                open.Stay();
            });
            using (var consumer = Make())
                Assert.AreEqual("1001", Next(consumer).SequenceNumber);
            Assert.AreEqual(1, Events("heartbeat").Count);
        }

        [Test]
        public void record_of_10_MiB_is_delivered()
        {
            var data = new byte[10 << 20];
            data[data.Length - 1] = 7;
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Record("b", 1, data: data);
                open.Record("b", 2);
                open.Stay();
            });
            using (var consumer = Make())
            {
                Assert.AreEqual(data, Next(consumer).Data);
                Assert.AreEqual("1002", Next(consumer).SequenceNumber);
            }
        }

        [Test]
        public void absent_sidecar_is_reported_each_time()
        {
            _sidecar.Dispose();
            using (var consumer = Make())
            {
                var next = consumer.NextAsync();
                Eventually.Until("three tries", () => Events("disconnected").Count >= 3);
                consumer.Stop();
                Assert.IsNull(next.GetAwaiter().GetResult());
            }
            StringAssert.StartsWith("cannot connect to " + _sidecar.Url + ": ", Reason);
        }

        [Test]
        public void unknown_event_is_passed_on()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Event(99, new WireWriter().Text(1, "x"));
                open.Record("b", 1);
                open.Stay();
            });
            using (var consumer = Make())
                Next(consumer);
            Assert.AreEqual(99L, Events("unknown").Single().Members["field"]);
        }

        [Test]
        public void exception_of_the_event_handler_ends_the_consumer()
        {
            _sidecar.Deliver("b", 1);
            Action<ConsumerEvent> fail = control => throw new InvalidOperationException("of the handler");
            using (var consumer = _sidecar.Consumer(options => options.OnEvent = fail))
                Assert.Throws<InvalidOperationException>(() => Next(consumer, 2));
        }

        [Test]
        public void take_over_ends_the_run_and_leaves_the_session()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Ended(1);
            });
            using (var consumer = Make())
            {
                var run = consumer.RunAsync((record, token) => Task.CompletedTask);
                Assert.Throws<SessionTakenOverException>(() => run.GetAwaiter().GetResult());
            }
            Assert.AreEqual(0, _sidecar.Deletes);
            Assert.AreEqual(1, _sidecar.Streams.Count);
        }

        [Test]
        public void token_file_is_read_for_each_request()
        {
            string path = Path.GetTempFileName();
            try
            {
                File.WriteAllText(path, "first\n");
                _sidecar.Deliver("b", 1, 2);
                using (var consumer = _sidecar.Consumer(options => options.TokenFile = path))
                {
                    Next(consumer);
                    File.WriteAllText(path, "second\n");
                    Next(consumer);
                    Eventually.Until("a settle request", () => _sidecar.Settles.Count > 0);
                }
            }
            finally
            {
                File.Delete(path);
            }
            Assert.AreEqual("Bearer first", _sidecar.Streams.Single().Header("Authorization"));
            Assert.AreEqual("Bearer second", _sidecar.Settles.First().Header("Authorization"));
        }

        [Test]
        public void options_are_in_the_query()
        {
            _sidecar.Deliver("b", 1);
            Action<ConsumerOptions> configure = options =>
            {
                options.MaxInFlight = 7;
                options.MaxInFlightBytes = 8;
                options.AckDeadline = TimeSpan.FromSeconds(9);
                options.Shards = new[] { "a", "b" };
                options.Subscription = "x y";
            };
            using (var consumer = _sidecar.Consumer(configure))
            using (var running = new RunningConsumer(consumer, record => Task.CompletedTask, 2))
                running.UntilHandled(1);
            Assert.AreEqual(
                "/v1/records/stream?client_id=test&max_in_flight=7&max_in_flight_bytes=8&ack_deadline_ms=9000" +
                "&ordering=key&lanes=64&shards=a%2Cb&subscription=x%20y",
                _sidecar.Streams.Single().Target);
            Assert.AreEqual("application/x-protobuf", _sidecar.Streams.Single().Header("Accept"));
            Assert.AreEqual("/v1/records/settle?subscription=x%20y", _sidecar.Settles.First().Target);
        }

        [TestCase("0.05", "v2", null, null, null, "&ordering=key&lanes=64&share=0.05&salt=v2")]
        [TestCase("0.5", null, null, Ordering.Key, 8, "&ordering=key&lanes=8&share=0.5")]
        [TestCase(null, null, "{\"a\":[\"\u00e4 +&\"]}", null, null,
            "&ordering=shard&filter=%7B%22a%22%3A%5B%22%C3%A4%20%2B%26%22%5D%7D")]
        [TestCase(null, null, null, null, null, "&ordering=shard")]
        public void stream_is_asked_for_the_records_that_the_consumer_wants(
            string share, string salt, string filter, Ordering? ordering, int? lanes, string wanted)
        {
            _sidecar.Deliver("b", 1);
            Action<ConsumerOptions> configure = options =>
            {
                options.Share = share;
                options.Salt = salt;
                options.Filter = filter;
                options.Ordering = ordering;
                options.Lanes = lanes;
            };
            using (var consumer = _sidecar.Consumer(configure))
            using (var running = new RunningConsumer(consumer, record => Task.CompletedTask))
                running.UntilHandled(1);
            StringAssert.EndsWith("&ack_deadline_ms=60000" + wanted, _sidecar.Streams.Single().Target);
        }

        [TestCase("ftp://x")]
        [TestCase("https://localhost")]
        [TestCase("http://")]
        [TestCase("unix:relative")]
        [TestCase("http://127.0.0.1:1/path")]
        public void malformed_address_is_refused(string url)
        {
            var options = new ConsumerOptions { Url = url };
            var refusal = Assert.Throws<ArgumentException>(() => new Consumer("test", options));
            StringAssert.Contains("url must be http://HOST:PORT or unix:/PATH, got " + url, refusal.Message);
        }

        [TestCase("")]
        [TestCase("a b")]
        [TestCase("0123456789012345678901234567890123456789012345678901234567890123456789")]
        public void malformed_client_id_is_refused(string clientId)
        {
            Assert.Throws<ArgumentException>(() => new Consumer(clientId));
        }

        [Test]
        public void consumer_that_is_not_read_opens_nothing()
        {
            using (var consumer = Make())
                Assert.AreEqual(0, consumer.Stale);
            Assert.AreEqual(0, _sidecar.Streams.Count);
            Assert.AreEqual(0, _sidecar.Deletes);
        }

        [Test]
        public void closed_consumer_hands_out_nothing()
        {
            _sidecar.Deliver("b", 1, 2);
            var consumer = Make();
            Next(consumer);
            consumer.Dispose();
            Assert.IsNull(Next(consumer));
            Assert.AreEqual(1, _sidecar.Deletes);
            Assert.AreEqual(1, _sidecar.Streams.Count);
            Assert.IsEmpty(_sidecar.SettlesWith("ack"));
        }

        [Test]
        public void cancelled_wait_loses_no_record()
        {
            _sidecar.Scripts.Add(open =>
            {
                open.Begin();
                open.Heartbeat();
                open.Stay();
            });
            using (var consumer = Make())
            {
                using (var cancellation = new CancellationTokenSource())
                {
                    var next = consumer.NextAsync(cancellation.Token);
                    Eventually.Until("the stream is open", () => Events("heartbeat").Count == 1);
                    cancellation.Cancel();
                    Assert.Throws<TaskCanceledException>(() => next.GetAwaiter().GetResult());
                }
                _sidecar.Stream.Record("b", 1);
                Assert.AreEqual("1001", Next(consumer).SequenceNumber);
            }
        }

        private string Reason => (string)Events("disconnected").First().Members["reason"];

        private Consumer Make() => _sidecar.Consumer(options => options.OnEvent = _events.Enqueue);

        private List<ConsumerEvent> Events(string type) => _events.Where(control => control.Type == type).ToList();

        private static Record Next(Consumer consumer, int count = 1)
        {
            Record record = null;
            for (; count > 0; count--)
                record = consumer.NextAsync().GetAwaiter().GetResult();
            return record;
        }

        /// <summary>Plays one connection, then one that delivers record 1.</summary>
        private void ExpectRecordAfter(Action<ScriptedStream> trouble)
        {
            _sidecar.Scripts.Add(trouble);
            _sidecar.Deliver("b", 1);
            using (var consumer = Make())
                Assert.AreEqual("1001", Next(consumer).SequenceNumber);
            Assert.AreEqual(2, _sidecar.Streams.Count);
            Assert.AreEqual(1, Events("disconnected").Count);
        }
    }
}
