// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>A queue of which the last records can be removed, too.</summary>
    internal sealed class RecordQueue
    {
        private const int LeastSize = 16;

        /// <summary>A ring. Its size is a power of two.</summary>
        private Record[] _ring = new Record[LeastSize];
        private int _first;

        internal int Count { get; private set; }

        internal Record Last => _ring[At(Count - 1)];

        internal void Enqueue(Record record)
        {
            if (Count == _ring.Length)
                Grow();
            _ring[At(Count)] = record;
            Count++;
        }

        internal Record Dequeue()
        {
            var record = Take(0);
            _first = At(1);
            Count--;
            return record;
        }

        internal Record RemoveLast()
        {
            var record = Take(Count - 1);
            Count--;
            return record;
        }

        /// <summary>Removes the records that match, and notes them.</summary>
        internal void Remove(Predicate<Record> which, List<Record> removed)
        {
            for (int count = Count; count > 0; count--)
            {
                var record = Dequeue();
                if (which(record))
                    removed.Add(record);
                else
                    Enqueue(record);
            }
        }

        private int At(int index) => (_first + index) & (_ring.Length - 1);

        private Record Take(int index)
        {
            int at = At(index);
            var record = _ring[at];
            _ring[at] = null;
            return record;
        }

        private void Grow()
        {
            var larger = new Record[_ring.Length * 2];
            for (int i = 0; i < Count; i++)
                larger[i] = _ring[At(i)];
            _ring = larger;
            _first = 0;
        }
    }
}
