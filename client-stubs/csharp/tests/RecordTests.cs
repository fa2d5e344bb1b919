// SPDX-License-Identifier: Apache-2.0
using System;
using System.Text;
using KinesisSidecar.Client.Testing;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    [TestFixture]
    public class RecordTests
    {
        [TestCase("10", 0, "9", 0, true)]
        [TestCase("9", 0, "10", 0, false)]
        [TestCase("21", 0, "19", 0, true)]
        [TestCase("7", 1, "7", 0, true)]
        [TestCase("7", 0, "7", 0, false)]
        public void records_are_ordered_by_number(string one, long sub, string other, long otherSub, bool isAfter)
        {
            Assert.AreEqual(isAfter, Make(one, sub).IsAfter(Make(other, otherSub)));
        }

        [Test]
        public void data_is_one_copy_of_the_segment()
        {
            var record = Make("1", 0);
            Assert.AreEqual("data", Encoding.UTF8.GetString(record.Data));
            Assert.AreSame(record.Data, record.Data);
            CollectionAssert.AreEqual(record.Data, record.DataSegment);
        }

        [Test]
        public void durations_out_of_their_limits_are_refused()
        {
            var record = Make("1", 0);
            Assert.Throws<ArgumentOutOfRangeException>(() => record.Retry(TimeSpan.FromHours(13)));
            Assert.Throws<ArgumentOutOfRangeException>(() => record.Retry(TimeSpan.FromSeconds(-1)));
            Assert.Throws<ArgumentOutOfRangeException>(() => record.Extend(TimeSpan.Zero));
            Assert.AreEqual(Outcome.None, record.Outcome);
        }

        private static Record Make(string sequenceNumber, long subSequenceNumber) =>
            new FakeConsumer().Add("k", Encoding.UTF8.GetBytes("data"), sequenceNumber, subSequenceNumber);
    }
}
