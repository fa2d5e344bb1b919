// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>A retry whose effect on the later records of its lane is not known yet. The lock of the consumer guards
    /// it.
    /// </summary>
    internal sealed class Hold
    {
        private readonly Record _failed;

        internal Hold(Record failed)
        {
            _failed = failed;
        }

        /// <summary>The number in its request; 0: it is in no request yet, or the record was redelivered.</summary>
        internal long Barrier { get; set; }

        /// <summary>Whether the sidecar took the retry; null: no answer yet.</summary>
        internal bool? IsAccepted { get; set; }

        internal string AckId => _failed.AckId;

        internal bool IsOf(Record record) => record.Identity == _failed.Identity;

        /// <summary>Returns true if the answer and the barrier are there.</summary>
        internal bool IsResolved(long barrierSeen) => IsAccepted != null && barrierSeen >= Barrier;

        /// <summary>Returns true if the sidecar took the record back together with the failed one. After a lost lease
        /// the records of the next epoch do not depend on the retry.</summary>
        internal bool TakesBack(Record record) => IsAccepted == true && record.BarrierSeen < Barrier &&
            record.Batch.Epoch == _failed.Batch.Epoch && record.IsAfter(_failed);
    }
}
