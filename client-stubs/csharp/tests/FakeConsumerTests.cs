// SPDX-License-Identifier: Apache-2.0
using System;
using System.Linq;
using System.Text;
using System.Threading.Tasks;
using KinesisSidecar.Client.Testing;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    [TestFixture]
    public class FakeConsumerTests
    {
        [Test]
        public async Task run_reports_outcomes()
        {
            var consumer = new FakeConsumer();
            consumer.Add("k", "1");
            consumer.Add("k", "2");
            await consumer.RunAsync((record, token) =>
            {
                if (record.SequenceNumber == "1" && record.Attempt == 1)
                    throw new FormatException("odd");
                if (record.SequenceNumber == "2")
                    record.DeadLetter("even");
                return Task.CompletedTask;
            });
            CollectionAssert.AreEqual(
                new[] { "1 1 Retry FormatException: odd", "1 2 Ack ", "2 1 DeadLetter even" },
                consumer.Settlements.Select(one =>
                    one.Record.SequenceNumber + " " + one.Record.Attempt + " " + one.Outcome + " " + one.Reason));
        }

        [Test]
        public async Task record_that_always_fails_becomes_a_dead_letter()
        {
            var consumer = new FakeConsumer(maxAttempts: 2);
            consumer.Add("k", "{");
            await consumer.RunAsync((record, token) => throw new FormatException("not JSON"));
            CollectionAssert.AreEqual(
                new[] { Outcome.Retry, Outcome.DeadLetter }, consumer.Settlements.Select(one => one.Outcome));
        }

        [Test]
        public async Task loop_that_is_left_settles_nothing()
        {
            var consumer = new FakeConsumer();
            var first = consumer.Add("k", "1");
            consumer.Add("k", "2");
            Assert.AreSame(first, await consumer.NextAsync());
            Assert.AreEqual("2", Encoding.UTF8.GetString((await consumer.NextAsync()).Data));
            consumer.Dispose();
            Assert.AreSame(first, consumer.Settlements.Single().Record);
        }

        [Test]
        public async Task record_of_a_loop_that_was_left_is_handed_out_by_the_next_loop()
        {
            var consumer = new FakeConsumer();
            var first = consumer.Add("k", "1");
            consumer.Add("k", "2");
            await consumer.NextBatchAsync(2);
            ((ILoop)consumer).Begin();
            Assert.AreSame(first, await consumer.NextAsync());
        }

        [TestCase(1)]
        [TestCase(2)]
        [TestCase(500)]
        public async Task batches_have_a_size(int size)
        {
            var consumer = new FakeConsumer();
            for (int i = 0; i < 5; i++)
                consumer.Add("k", "data");
            int count = 0;
            while (await consumer.NextBatchAsync(size) is Batch batch)
            {
                Assert.LessOrEqual(batch.Count, size);
                count += batch.Count;
            }
            Assert.AreEqual(5, count);
            Assert.AreEqual(5, consumer.Settlements.Count(one => one.Outcome == Outcome.Ack));
        }

        [Test]
        public async Task delay_and_persisted_acknowledgement_are_kept()
        {
            var consumer = new FakeConsumer();
            consumer.Add("k", "1").Retry(TimeSpan.FromSeconds(2), "later");
            Assert.AreEqual(TimeSpan.FromSeconds(2), consumer.Settlements.Single().Delay);
            Assert.IsTrue(await (await consumer.NextAsync()).AckPersistedAsync());
        }
    }
}
