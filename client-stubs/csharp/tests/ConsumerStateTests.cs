// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;
using System.Linq;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>The state alone: many redeliveries, and what they cost.</summary>
    [TestFixture]
    public class ConsumerStateTests
    {
        private const int MaxInFlight = 1000;
        private ConsumerState _state;
        private EventDecoder _decoder;

        [SetUp]
        public void Begin()
        {
            _state = new ConsumerState(new Settings("test", new ConsumerOptions()));
            _decoder = new EventDecoder(_state);
            Bring(Decode(1, new WireWriter().Number(4, MaxInFlight).Number(5, 16 << 20).Number(6, 60000)));
        }

        [Test]
        public void redelivery_costs_the_same_however_many_records_the_app_has()
        {
            Deliver(1, 1000);
            Assert.AreEqual(1000, TakeAll().Count);
            Deliver(2, 1000);
            Deliver(3, 1000);
            Assert.IsEmpty(TakeAll());
            Assert.Less(_state.Collected, 10 * 2000);
        }

        [Test]
        public void redelivery_of_records_that_the_app_never_had_costs_the_same()
        {
            Deliver(1, 1000);
            TakeAll();
            Deliver(2, 2000, 1001);
            Assert.AreEqual(2000, TakeAll().Count);
            Assert.Less(_state.Collected, 10 * 2000);
        }

        [Test]
        public void record_is_found_after_many_others_were_delivered()
        {
            Deliver(1, 1);
            TakeAll();
            Deliver(2, 1);
            Deliver(1, 5 * MaxInFlight, 2);
            TakeAll().ForEach(record => record.Ack());
            Deliver(3, 1);
            Assert.IsEmpty(TakeAll());
        }

        [Test]
        public void record_of_a_confirmed_outcome_is_handed_out_again()
        {
            Deliver(1, 1);
            TakeAll().ForEach(record => record.Drop());
            Deliver(2, 1, 2); /* From here on earlier records are known. */
            TakeAll();
            _state.Answered(_state.AwaitRequest(), new Dictionary<string, string>());
            Deliver(2, 1);
            Assert.AreEqual(2, TakeAll().Single().Attempt);
        }

        [Test]
        public void redelivery_replaces_the_last_of_many_records_that_wait()
        {
            Deliver(1, 1000);
            Deliver(2, 10, 991);
            var attempts = TakeAll().Select(record => record.Attempt).ToList();
            CollectionAssert.AreEqual(Enumerable.Repeat(1, 990).Concat(Enumerable.Repeat(2, 10)), attempts);
        }

        private void Bring(object item) => _state.Apply(new List<object> { item });

        /// <summary>Delivers batches of one record each.</summary>
        private void Deliver(int attempt, int count, int first = 1)
        {
            for (int number = first; number < first + count; number++)
            {
                string id = number + "-" + attempt;
                Bring(Decode(2, new WireWriter()
                    .Text(RecordFields.AckId, id)
                    .Text(RecordFields.BatchId, "b" + id)
                    .Text(RecordFields.ShardId, "shard-0")
                    .Text(RecordFields.SequenceNumber, number.ToString())
                    .Number(RecordFields.Attempt, attempt)));
            }
        }

        private object Decode(int field, WireWriter members)
        {
            byte[] message = new WireWriter().Bytes(field, members.ToArray()).ToArray();
            return _decoder.Decode(message, 0, message.Length);
        }

        /// <summary>Takes what the app may have.</summary>
        private List<Record> TakeAll()
        {
            var taken = new List<Record>();
            while (_state.Take(null, false) is Record record)
                taken.Add(record);
            return taken;
        }
    }
}
