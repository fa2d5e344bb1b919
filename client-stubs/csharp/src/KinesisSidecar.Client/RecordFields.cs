// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>The field numbers of Record in proto/kinesis_sidecar/v1/record.proto.</summary>
    internal static class RecordFields
    {
        internal const int AckId = 1;
        internal const int BatchId = 2;
        internal const int Stream = 3;
        internal const int ShardId = 4;
        internal const int Epoch = 5;
        internal const int SequenceNumber = 6;
        internal const int SubSequenceNumber = 7;
        internal const int PartitionKey = 8;
        internal const int ArrivedAt = 9;
        internal const int Attempt = 10;
        internal const int Aggregated = 11;
        internal const int Data = 12;
        internal const int Redriven = 13;
        internal const int Lane = 14;
    }
}
