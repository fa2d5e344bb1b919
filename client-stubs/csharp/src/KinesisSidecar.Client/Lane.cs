// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>The records of one scope that wait for the app, in order. The lock of the consumer guards it.</summary>
    internal sealed class Lane
    {
        internal Lane(bool isOrdered)
        {
            IsOrdered = isOrdered;
        }

        internal RecordQueue Waiting { get; } = new RecordQueue();

        /// <summary>The last record that the stream brought; null: none.</summary>
        internal Record Delivered { get; set; }

        /// <summary>Retries without an answer or a barrier. No record of the lane is handed out until then.</summary>
        internal List<Hold> Holds { get; } = new List<Hold>();

        /// <summary>False if its records have no order, so that no retry takes any of them back.</summary>
        internal bool IsOrdered { get; }

        /// <summary>Whether a handler of a run has a record of it.</summary>
        internal bool IsBusy { get; set; }

        /// <summary>Whether it is in the list of lanes that are ready.</summary>
        internal bool IsListed { get; set; }

        internal bool IsReady => Waiting.Count > 0 && !IsBusy && Holds.Count == 0;

        /// <summary>Adds a record before the later ones.</summary>
        internal void Insert(Record record)
        {
            var later = new List<Record>();
            Waiting.Remove(other => !IsOrdered || other.IsAfter(record), later);
            Waiting.Enqueue(record);
            later.ForEach(Waiting.Enqueue);
        }
    }
}
