// SPDX-License-Identifier: Apache-2.0
using System;
using System.IO;
using System.Text;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>One open stream. Any thread of the test may write to it.</summary>
    internal sealed class ScriptedStream
    {
        private const string Head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n";

        private readonly Stream _stream;

        internal ScriptedStream(Stream stream)
        {
            _stream = stream;
        }

        internal void Answer(string answer)
        {
            byte[] bytes = Encoding.UTF8.GetBytes(answer);
            lock (this)
                _stream.Write(bytes, 0, bytes.Length);
        }

        internal void Begin(long ackDeadlineMs = 60000, long heartbeatMs = 10000, int maxInFlight = 1000)
        {
            Answer(Head);
            Event(1, new WireWriter().Text(1, "test").Text(2, "test").Number(4, maxInFlight).Number(5, 16 << 20)
                .Number(6, ackDeadlineMs).Number(7, heartbeatMs));
        }

        /// <summary>The ack_id of record 7 in batch b is b-7, its sequence number 1007, its data {"n":7}.</summary>
        internal void Record(
            string batch,
            int number,
            int attempt = 1,
            int lane = 0,
            string shard = "shard-0",
            byte[] data = null,
            bool isRedriven = false,
            int epoch = 1)
        {
            Event(2, new WireWriter()
                .Text(RecordFields.AckId, batch + "-" + number)
                .Text(RecordFields.BatchId, batch)
                .Text(RecordFields.Stream, "s")
                .Text(RecordFields.ShardId, shard)
                .Number(RecordFields.Epoch, epoch)
                .Text(RecordFields.SequenceNumber, (1000 + number).ToString())
                .Text(RecordFields.PartitionKey, "k")
                .Number(RecordFields.Attempt, attempt)
                .Bytes(RecordFields.Data, data ?? Encoding.UTF8.GetBytes("{\"n\":" + number + "}"))
                .Number(RecordFields.Redriven, isRedriven ? 1 : 0)
                .Number(RecordFields.Lane, lane));
        }

        internal void Heartbeat() => Event(3, new WireWriter());

        internal void LeaseLost(string shard) => Event(6, new WireWriter().Text(1, shard));

        internal void Ended(int reason) => Event(7, new WireWriter().Number(1, reason));

        internal void Barrier(string barrier) => Event(11, new WireWriter().Text(1, barrier));

        internal void Event(int number, WireWriter members)
        {
            byte[] message = new WireWriter().Bytes(number, members.ToArray()).ToArray();
            Chunk(new WireWriter().Delimited(message).ToArray());
        }

        internal void Chunk(byte[] bytes)
        {
            lock (this)
            {
                Answer(bytes.Length.ToString("x") + "\r\n");
                _stream.Write(bytes, 0, bytes.Length);
                Answer("\r\n");
            }
        }

        /// <summary>Breaks the connection by an answer that is no chunk.</summary>
        internal void Break() => Answer("not a chunk\r\n");

        /// <summary>Keeps the connection open until the client closes it.</summary>
        internal void Stay()
        {
            while (_stream.ReadByte() >= 0)
                continue;
        }
    }
}
