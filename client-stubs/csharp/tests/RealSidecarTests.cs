// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>The consumer and the sidecar's binary.</summary>
    [TestFixture]
    [Timeout(180000)]
    public class RealSidecarTests
    {
        [Test]
        public void every_outcome_reaches_the_sidecar()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(new[] { "ack", "fail", "retry", "dead_letter", "drop" }, text => text);
                var seen = new ConcurrentQueue<string>();
                Func<Record, Task> handler = record =>
                {
                    string order = TextOf(record);
                    seen.Enqueue(order + " " + record.Attempt);
                    if (order == "fail" && record.Attempt < 3)
                        throw new InvalidOperationException("fail");
                    if (order == "retry" && record.Attempt == 1)
                        record.Retry(TimeSpan.FromMilliseconds(20), "again");
                    if (order == "dead_letter")
                        record.DeadLetter("asked");
                    if (order == "drop")
                        record.Drop();
                    return Task.CompletedTask;
                };
                using (new RunningConsumer(sidecar.Consumer("outcomes"), handler, 4))
                    sidecar.UntilSettled(5);
                CollectionAssert.AreEquivalent(
                    new[] { "ack 1", "dead_letter 1", "drop 1", "fail 1", "fail 2", "fail 3", "retry 1", "retry 2" },
                    seen);
                Assert.AreEqual("asked", sidecar.List("/v1/dead-letters", "dead_letters").Single()["reason"]);
            }
        }

        [TestCase(1)]
        [TestCase(8)]
        public void order_of_a_key_is_kept_while_handlers_fail(int concurrency)
        {
            const int Keys = 10, Count = 500;
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(Numbers(Count), text => "key-" + (int.Parse(text) % Keys));
                var done = new ConcurrentDictionary<string, ConcurrentQueue<int>>();
                var running = new ConcurrentDictionary<string, int>();
                int overlaps = 0;
                Func<Record, Task> handler = async record =>
                {
                    if (running.AddOrUpdate(record.PartitionKey, 1, (key, before) => before + 1) > 1)
                        Interlocked.Increment(ref overlaps);
                    int number = int.Parse(TextOf(record));
                    await Task.Yield();
                    if (!(number % 37 == 0 && record.Attempt == 1))
                        done.GetOrAdd(record.PartitionKey, key => new ConcurrentQueue<int>()).Enqueue(number);
                    running.AddOrUpdate(record.PartitionKey, 0, (key, before) => before - 1);
                    if (number % 37 == 0 && record.Attempt == 1)
                        throw new InvalidOperationException("fails once");
                };
                using (new RunningConsumer(sidecar.Consumer("order"), handler, concurrency))
                    sidecar.UntilSettled(Count);
                Assert.AreEqual(0, overlaps);
                for (int key = 0; key < Keys; key++)
                {
                    CollectionAssert.AreEqual(
                        Enumerable.Range(0, Count / Keys).Select(step => key + (step * Keys)),
                        done["key-" + key].Distinct());
                }
            }
        }

        [Test]
        public void slow_handler_beyond_the_deadline_is_not_repeated()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(new[] { "slow", "waits" }, text => "k");
                var handled = new ConcurrentQueue<string>();
                Func<Record, Task> handler = record =>
                {
                    handled.Enqueue(TextOf(record) + " " + record.Attempt);
                    return TextOf(record) == "slow" ? Task.Delay(3000) : Task.CompletedTask;
                };
                var consumer = sidecar.Consumer("slow", options => options.AckDeadline = TimeSpan.FromSeconds(1));
                using (new RunningConsumer(consumer, handler))
                    sidecar.UntilSettled(2);
                CollectionAssert.AreEqual(new[] { "slow 1", "waits 1" }, handled);
            }
        }

        [Test]
        public async Task left_loop_gives_its_record_back()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(Numbers(5), text => "k");
                using (var consumer = sidecar.Consumer("loop"))
                {
                    while (TextOf(await consumer.NextAsync()) != "2")
                        continue;
                }
                var rest = new List<string>();
                using (var consumer = sidecar.Consumer("loop"))
                {
                    while (rest.Count < 3)
                        rest.Add(TextOf(await consumer.NextAsync()));
                }
                CollectionAssert.AreEqual(new[] { "2", "3", "4" }, rest);
            }
        }

        [Test]
        public async Task batches_have_a_size_and_are_acknowledged_or_retried()
        {
            using (var sidecar = new RealSidecar("--local-shards", "1"))
            {
                sidecar.Put(Numbers(10), text => "k");
                using (var consumer = sidecar.Consumer("batches"))
                {
                    (await consumer.NextBatchAsync(4, TimeSpan.FromMilliseconds(500))).Retry(reason: "again");
                    var done = new List<string>();
                    while (done.Count < 10)
                    {
                        var batch = await consumer.NextBatchAsync(4, TimeSpan.FromMilliseconds(500));
                        Assert.LessOrEqual(batch.Count, 4);
                        done.AddRange(batch.Select(TextOf));
                        batch.Ack();
                    }
                    CollectionAssert.AreEqual(Numbers(10), done);
                }
                sidecar.UntilSettled(10);
            }
        }

        [Test]
        public async Task rest_of_a_retried_batch_is_handed_out_once()
        {
            using (var sidecar = new RealSidecar("--local-shards", "1"))
            {
                sidecar.Put(Numbers(3), text => "k");
                using (var consumer = sidecar.Consumer("rest"))
                {
                    var batch = await consumer.NextBatchAsync(3, TimeSpan.FromMinutes(1));
                    batch[0].Retry(TimeSpan.FromMilliseconds(10));
                    Eventually.Until(
                        "the rest is redelivered",
                        () => batch.Skip(1).All(record => record.Batch.Id != record.BatchId));
                    sidecar.Put(new[] { "3", "4" }, text => "k");
                    batch = await consumer.NextBatchAsync(3, TimeSpan.FromMinutes(1));
                    CollectionAssert.AreEqual(new[] { "0", "3", "4" }, batch.Select(TextOf));
                    batch.Ack();
                    sidecar.UntilSettled(5);
                }
            }
        }

        [Test]
        public async Task persisted_acknowledgement_waits_for_the_checkpoint()
        {
            using (var sidecar = new RealSidecar("--checkpoint-interval-ms", "100"))
            {
                sidecar.Put(Numbers(1), text => "k");
                using (var consumer = sidecar.Consumer("persisted"))
                {
                    var record = await consumer.NextAsync();
                    Assert.IsTrue(await record.AckPersistedAsync());
                    var shard = sidecar.List("/v1/shards", "shards")
                        .Single(one => record.ShardId.Equals(one["shard_id"]));
                    Assert.AreEqual(record.SequenceNumber, shard["checkpoint"]);
                }
            }
        }

        [Test]
        public async Task record_has_its_members()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(new[] { "\u00e4" }, text => "the key");
                using (var consumer = sidecar.Consumer("members"))
                {
                    var record = await consumer.NextAsync();
                    Assert.AreEqual("\u00e4", TextOf(record));
                    Assert.AreEqual("the key", record.PartitionKey);
                    Assert.AreEqual("demo", record.Stream);
                    Assert.AreEqual(1, record.Attempt);
                    Assert.AreEqual(0, record.SubSequenceNumber);
                    StringAssert.StartsWith("shardId-", record.ShardId);
                    Assert.Less(Math.Abs((record.ArrivedAt.Value - DateTimeOffset.UtcNow).TotalHours), 1);
                    Assert.GreaterOrEqual(record.Epoch, 1);
                    Assert.IsFalse(record.IsAggregated || record.IsRedriven);
                }
            }
        }

        [Test]
        public void stop_while_handlers_run_acknowledges_them()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(Numbers(20), text => "key-" + text);
                var release = new TaskCompletionSource<bool>();
                using (var running = new RunningConsumer(sidecar.Consumer("stop"), record => release.Task, 3))
                {
                    Eventually.Until("three handlers run", () => running.Handled.Count == 3);
                    running.Consumer.Stop();
                    release.SetResult(true);
                    running.Run.Wait();
                    Assert.AreEqual(3, running.Handled.Count);
                }
                sidecar.UntilSettled(3);
            }
        }

        [Test]
        public void kill_of_the_sidecar_repeats_no_record_that_is_handled()
        {
            using (var sidecar = new RealSidecar("--checkpoint-interval-ms", "100"))
            {
                sidecar.Put(Numbers(10), text => "key-" + text);
                var release = new TaskCompletionSource<bool>();
                int sessions = 0, losses = 0;
                Action<ConsumerEvent> count = control =>
                {
                    if (control.Type == "session")
                        Interlocked.Increment(ref sessions);
                    else if (control.Type == "disconnected")
                        Interlocked.Increment(ref losses);
                };
                var consumer = sidecar.Consumer("kill", options => options.OnEvent = count);
                using (var running = new RunningConsumer(consumer, record => release.Task, 2))
                {
                    Eventually.Until("two handlers run", () => running.Handled.Count == 2);
                    sidecar.Kill();
                    Eventually.Until("the connection is lost", () => Volatile.Read(ref losses) > 0);
                    sidecar.Start();
                    Eventually.Until("the second session has all records",
                        () => Volatile.Read(ref sessions) == 2 && sidecar.SumOfShards("in_flight") == 10);
                    release.SetResult(true);
                    sidecar.UntilSettled(10);
                    Assert.AreEqual(10, running.Handled.Count);
                    Assert.AreEqual(10, running.Handled.Distinct().Count());
                }
            }
        }

        [Test]
        public void unix_socket_and_token()
        {
            using (var sidecar = RealSidecar.OnUnixSocket())
            {
                sidecar.Put(Numbers(1), text => "k");
                using (new RunningConsumer(sidecar.Consumer("unix"), record => Task.CompletedTask))
                    sidecar.UntilSettled(1);
                using (var consumer = sidecar.Consumer("other", options => options.TokenFile = "/dev/null"))
                {
                    var refusal = Assert.Throws<SidecarException>(() => consumer.NextAsync().GetAwaiter().GetResult());
                    Assert.AreEqual(401, refusal.Status);
                }
            }
        }

        [Test]
        public void second_consumer_with_the_same_client_id_takes_over()
        {
            using (var sidecar = new RealSidecar())
            {
                sidecar.Put(Numbers(1), text => "k");
                using (var first = sidecar.Consumer("same"))
                {
                    first.NextAsync().Wait();
                    var next = first.NextAsync();
                    using (new RunningConsumer(sidecar.Consumer("same"), record => Task.CompletedTask))
                    {
                        Assert.Throws<SessionTakenOverException>(() => next.GetAwaiter().GetResult());
                        sidecar.Put(Numbers(1), text => "k");
                        sidecar.UntilSettled(2);
                    }
                }
            }
        }

        private static string TextOf(Record record) => Encoding.UTF8.GetString(record.Data);

        private static List<string> Numbers(int count) =>
            Enumerable.Range(0, count).Select(number => number.ToString()).ToList();
    }
}
