// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    [TestFixture]
    public class EventDecoderTests
    {
        private const int Later = 1000;
        private static readonly string[] NotOnHttp = { "record", "batch", "answer" };
        private readonly EventDecoder _decoder = new EventDecoder(null);

        [Test]
        public void record_with_all_fields_is_decoded()
        {
            var record = (Record)Decode(2, AllFields());
            Assert.AreEqual("a", record.AckId);
            Assert.AreEqual("b", record.BatchId);
            Assert.AreEqual("s", record.Stream);
            Assert.AreEqual("shard", record.ShardId);
            Assert.AreEqual(3, record.Epoch);
            Assert.AreEqual("49680587343713021537462147092419872691343867675519483906", record.SequenceNumber);
            Assert.AreEqual(7, record.SubSequenceNumber);
            Assert.AreEqual("key \u00fc \ud83d\ude00", record.PartitionKey);
            Assert.AreEqual(DateTimeOffset.Parse("2026-09-21T14:13:20.123Z"), record.ArrivedAt);
            Assert.AreEqual(300, record.Attempt);
            Assert.IsTrue(record.IsAggregated);
            Assert.IsTrue(record.IsRedriven);
            Assert.AreEqual(63, record.LaneNumber);
            CollectionAssert.AreEqual(new byte[] { 1, 0, 255 }, record.Data);
        }

        [Test]
        public void record_without_fields_has_defaults()
        {
            var record = (Record)new EventDecoder(null).Decode(new byte[] { 0x12, 0 }, 0, 2);
            Assert.AreEqual("", record.PartitionKey);
            Assert.AreEqual(0, record.Epoch);
            Assert.IsNull(record.ArrivedAt);
            Assert.IsEmpty(record.Data);
        }

        [Test]
        public void records_of_one_batch_share_its_texts()
        {
            var first = (Record)Decode(2, AllFields());
            var second = (Record)Decode(2, AllFields());
            Assert.AreSame(first.BatchId, second.BatchId);
            Assert.AreSame(first.ShardId, second.ShardId);
        }

        [Test]
        public void field_numbers_of_records_are_those_of_the_proto()
        {
            var numbers = typeof(RecordFields).GetFields(
                System.Reflection.BindingFlags.Static | System.Reflection.BindingFlags.NonPublic)
                .ToDictionary(field => field.Name, field => (int)field.GetRawConstantValue());
            foreach (var field in Fields("Record"))
            {
                string name = field.Name == "approximate_arrival_timestamp" ? "ArrivedAt" : PascalCase(field.Name);
                Assert.AreEqual(field.Number, numbers[name], field.Name);
            }
            Assert.AreEqual(Fields("Record").Count, numbers.Count);
        }

        [Test]
        public void events_have_the_names_of_the_proto()
        {
            foreach (var kind in Fields("StreamEvent").Where(field => !NotOnHttp.Contains(field.Name)))
            {
                var message = Unknown(new WireWriter());
                var members = Fields(kind.Type);
                foreach (var member in members)
                {
                    if (member.Type == "string")
                        message.Text(member.Number, "text of " + member.Name);
                    else
                        message.Number(member.Number, member.Name == "deadline" ? 1790000000123 : 1);
                }
                var control = (ConsumerEvent)Decode(kind.Number, message);
                Assert.AreEqual(kind.Name, control.Type);
                CollectionAssert.AreEquivalent(members.Select(member => member.Name), control.Members.Keys, kind.Name);
                foreach (var member in members)
                    Assert.AreEqual(Expected(member), control.Members[member.Name], kind.Name + "." + member.Name);
            }
        }

        [Test]
        public void enum_values_are_the_words_of_the_proto()
        {
            foreach (string word in Values("IdleReason"))
            {
                var heartbeat = new WireWriter().Number(3, Values("IdleReason").IndexOf(word));
                Assert.AreEqual(word, ((ConsumerEvent)Decode(3, heartbeat)).Members["idle_reason"]);
            }
            foreach (string word in Values("SessionEnd"))
            {
                var ended = new WireWriter().Number(1, Values("SessionEnd").IndexOf(word));
                Assert.AreEqual(word, ((ConsumerEvent)Decode(7, ended)).Members["reason"]);
            }
        }

        [Test]
        public void enum_value_of_a_later_sidecar_is_its_number()
        {
            Assert.AreEqual("99", ((ConsumerEvent)Decode(7, new WireWriter().Number(1, 99))).Members["reason"]);
        }

        [Test]
        public void event_of_a_later_sidecar_is_unknown()
        {
            var control = (ConsumerEvent)Decode(99, new WireWriter());
            Assert.AreEqual("unknown", control.Type);
            Assert.AreEqual(99L, control.Members["field"]);
        }

        [Test]
        public void damaged_bytes_are_a_message_or_an_exception_of_the_connection()
        {
            byte[] whole = new WireWriter().Bytes(2, AllFields().ToArray()).ToArray();
            var random = new Random(1);
            for (int i = 0; i < 20000; i++)
            {
                byte[] damaged = whole.Take(1 + random.Next(whole.Length)).ToArray();
                damaged[random.Next(damaged.Length)] = (byte)random.Next(256);
                try
                {
                    if (_decoder.Decode(damaged, 0, damaged.Length) is Record record)
                        Assert.IsNotNull(record.SequenceNumber + record.PartitionKey + record.ArrivedAt);
                }
                catch (IOException)
                {
                    /* The connection is dropped. */
                }
            }
            Assert.Throws<IOException>(() => _decoder.Decode(whole, 0, whole.Length - 1));
        }

        private object Decode(int kind, WireWriter message)
        {
            byte[] bytes = Unknown(new WireWriter().Bytes(kind, message.ToArray())).ToArray();
            return _decoder.Decode(bytes, 0, bytes.Length - 6);
        }

        private static WireWriter AllFields() => Unknown(new WireWriter()
            .Text(1, "a").Text(2, "b").Text(3, "s").Text(4, "shard").Number(5, 3)
            .Text(6, "49680587343713021537462147092419872691343867675519483906").Number(7, 7)
            .Text(8, "key \u00fc \ud83d\ude00").Number(9, 1790000000123).Number(10, 300).Number(11, 1)
            .Bytes(12, new byte[] { 1, 0, 255 }).Number(13, 1).Number(14, 63));

        /// <summary>Adds fields of a later sidecar: 6 bytes.</summary>
        private static WireWriter Unknown(WireWriter message) => message.Number(Later, 1).Text(Later, "");

        private static object Expected(ProtoField member)
        {
            if (member.Type == "string")
                return "text of " + member.Name;
            if (member.Name == "deadline")
                return DateTimeOffset.Parse("2026-09-21T14:13:20.123Z");
            return char.IsUpper(member.Type[0]) ? (object)Values(member.Type)[1] : 1L;
        }

        private static string PascalCase(string name) =>
            string.Concat(name.Split('_').Select(word => char.ToUpperInvariant(word[0]) + word.Substring(1)));

        private static List<ProtoField> Fields(string message) =>
            Regex.Matches(Block("message " + message), @"(\w+) (\w+) = (\d+);").Cast<Match>()
                .Select(match => match.Groups)
                .Select(groups => new ProtoField(groups[1].Value, groups[2].Value, int.Parse(groups[3].Value)))
                .ToList();

        private static List<string> Values(string name)
        {
            string prefix = Regex.Replace(name, "(?<=[a-z])[A-Z]", "_$0").ToUpperInvariant() + "_";
            return Regex.Matches(Block("enum " + name), prefix + @"(\w+) = \d+;").Cast<Match>()
                .Select(match => match.Groups[1].Value.ToLowerInvariant().Replace("unspecified", "")).ToList();
        }

        /// <summary>Returns the lines of a message or an enum of record.proto.</summary>
        private static string Block(string name)
        {
            string folder = Directory.GetCurrentDirectory();
            while (!Directory.Exists(Path.Combine(folder, "proto")))
                folder = Path.GetDirectoryName(folder);
            string proto = File.ReadAllText(Path.Combine(folder, "proto/kinesis_sidecar/v1/record.proto"));
            string begin = "\n" + name + " {";
            int at = proto.IndexOf(begin, StringComparison.Ordinal) + begin.Length;
            return proto.Substring(at, proto.IndexOf("\n}", at, StringComparison.Ordinal) - at);
        }

        private sealed class ProtoField
        {
            internal ProtoField(string type, string name, int number)
            {
                Type = type;
                Name = name;
                Number = number;
            }

            internal string Type { get; }

            internal string Name { get; }

            internal int Number { get; }
        }
    }
}
