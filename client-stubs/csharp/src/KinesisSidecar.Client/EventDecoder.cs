// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// Decodes the messages of the stream: StreamEvent in proto/kinesis_sidecar/v1/record.proto. Two message types do
    /// not justify a dependency on Google.Protobuf. A test compares the field numbers with the proto.
    /// </summary>
    internal sealed class EventDecoder
    {
        private const int RecordEvent = 2;

        private static readonly string[] IdleReasons =
        {
            "", "no_data", "no_leases", "flow_controlled", "paused", "draining", "throttled", "lane_blocked", "fenced",
            "no_sessions",
        };

        private static readonly string[] SessionEnds = { "", "taken_over", "expired", "drained", "closed" };

        /// <summary>
        /// The events by their field numbers in StreamEvent, with the names of the JSON stream: the type, and the
        /// fields 1, 2 .. with their kinds. # is a number, @ an instant, ? an idle reason, ! the end of a session.
        /// </summary>
        private static readonly Dictionary<int, string[]> Events = new Dictionary<int, string[]>
        {
            [1] = new[]
            {
                "session", "session", "client_id", "boot_id", "#max_in_flight", "#max_in_flight_bytes",
                "#ack_deadline_ms", "#heartbeat_ms",
            },
            [3] = new[] { "heartbeat", "#in_flight", "#credit", "?idle_reason" },
            [4] = new[] { "draining", "@deadline" },
            [5] = new[] { "lease_returning", "shard_id", "@deadline" },
            [6] = new[] { "lease_lost", "shard_id" },
            [7] = new[] { "ended", "!reason" },
            [10] = new[]
            {
                "record_too_large", "shard_id", "#epoch", "sequence_number", "#sub_sequence_number", "partition_key",
                "#bytes", "#max_message_bytes", "#max_message_bytes_wanted",
            },
            [11] = new[] { "barrier", "barrier" },
        };

        private readonly IRecordOwner _owner;

        /* These are the same in most records: one text serves for all. */
        private string _batchId = "";
        private string _shardId = "";

        internal EventDecoder(IRecordOwner owner)
        {
            _owner = owner;
        }

        /// <summary>Decodes the message in bytes[at..end). Returns a Record or a ConsumerEvent.</summary>
        internal object Decode(byte[] bytes, int at, int end)
        {
            object item = null;
            while (at < end)
            {
                int tag = (int)Wire.ReadVarint(bytes, ref at, end);
                if ((tag & 7) != Wire.Bytes)
                {
                    Wire.Skip(bytes, tag, ref at, end);
                    continue;
                }
                int fieldEnd = Wire.ReadEnd(bytes, ref at, end);
                item = tag >> 3 == RecordEvent
                    ? (object)DecodeRecord(bytes, at, fieldEnd)
                    : DecodeEvent(tag >> 3, bytes, at, fieldEnd);
                at = fieldEnd;
            }
            return item ?? new ConsumerEvent("unknown", new Dictionary<string, object>());
        }

        private Record DecodeRecord(byte[] bytes, int at, int end)
        {
            int begin = at, dataBegin = at, dataEnd = at, attempt = 0, lane = 0;
            bool isRedriven = false;
            string batchId = "", shardId = "";
            while (at < end)
            {
                int tag = (int)Wire.ReadVarint(bytes, ref at, end);
                switch (tag)
                {
                    case RecordFields.BatchId << 3 | Wire.Bytes:
                        batchId = _batchId = ReadText(_batchId, bytes, ref at, end);
                        break;
                    case RecordFields.ShardId << 3 | Wire.Bytes:
                        shardId = _shardId = ReadText(_shardId, bytes, ref at, end);
                        break;
                    case RecordFields.Attempt << 3 | Wire.Varint:
                        attempt = (int)Wire.ReadVarint(bytes, ref at, end);
                        break;
                    case RecordFields.Data << 3 | Wire.Bytes:
                        dataEnd = Wire.ReadEnd(bytes, ref at, end);
                        dataBegin = at;
                        at = dataEnd;
                        break;
                    case RecordFields.Redriven << 3 | Wire.Varint:
                        isRedriven = Wire.ReadVarint(bytes, ref at, end) != 0;
                        break;
                    case RecordFields.Lane << 3 | Wire.Varint:
                        lane = (int)Wire.ReadVarint(bytes, ref at, end);
                        break;
                    default:
                        Wire.Skip(bytes, tag, ref at, end);
                        break;
                }
            }
            var data = new ArraySegment<byte>(bytes, dataBegin, dataEnd - dataBegin);
            return new Record(_owner, bytes, begin, end, data, batchId, shardId)
            {
                Attempt = attempt,
                IsRedriven = isRedriven,
                LaneNumber = lane,
            };
        }

        private static ConsumerEvent DecodeEvent(int number, byte[] bytes, int at, int end)
        {
            if (!Events.TryGetValue(number, out var names))
                return new ConsumerEvent("unknown", new Dictionary<string, object> { ["field"] = (long)number });
            var members = new Dictionary<string, object>();
            for (int field = 1; field < names.Length; field++)
                members[NameOf(names[field])] = IsText(names[field]) ? "" : ValueOf(names[field], 0);
            while (at < end)
            {
                int tag = (int)Wire.ReadVarint(bytes, ref at, end);
                string name = tag >> 3 > 0 && tag >> 3 < names.Length ? names[tag >> 3] : null;
                if (name == null || (tag & 7) != (IsText(name) ? Wire.Bytes : Wire.Varint))
                    Wire.Skip(bytes, tag, ref at, end);
                else if (IsText(name))
                    members[name] = ReadText("", bytes, ref at, end);
                else
                    members[NameOf(name)] = ValueOf(name, Wire.ReadVarint(bytes, ref at, end));
            }
            return new ConsumerEvent(names[0], members);
        }

        private static bool IsText(string name) => "#@?!".IndexOf(name[0]) < 0;

        private static string NameOf(string name) => IsText(name) ? name : name.Substring(1);

        private static object ValueOf(string name, long number)
        {
            switch (name[0])
            {
                case '@':
                    return InstantOf(number);
                case '?':
                    return WordOf(IdleReasons, number);
                case '!':
                    return WordOf(SessionEnds, number);
                default:
                    return number;
            }
        }

        private static DateTimeOffset InstantOf(long milliseconds)
        {
            if (milliseconds < 0 || milliseconds > DateTimeOffset.MaxValue.ToUnixTimeMilliseconds())
                throw new IOException("a message of the stream has a malformed instant");
            return DateTimeOffset.FromUnixTimeMilliseconds(milliseconds);
        }

        /// <summary>The word of a value that a later sidecar has added is its number.</summary>
        private static string WordOf(string[] words, long number) =>
            number >= 0 && number < words.Length ? words[number] : number.ToString();

        /// <summary>Reads a text. Returns the one before if it is equal.</summary>
        private static string ReadText(string before, byte[] bytes, ref int at, int end)
        {
            int textEnd = Wire.ReadEnd(bytes, ref at, end);
            string text = IsAt(before, bytes, at, textEnd) ? before : Encoding.UTF8.GetString(bytes, at, textEnd - at);
            at = textEnd;
            return text;
        }

        private static bool IsAt(string text, byte[] bytes, int begin, int end)
        {
            if (text.Length != end - begin)
                return false;
            /* In most cases the end differs first. */
            for (int i = text.Length - 1; i >= 0; i--)
            {
                if (text[i] != bytes[begin + i])
                    return false;
            }
            return true;
        }
    }
}
