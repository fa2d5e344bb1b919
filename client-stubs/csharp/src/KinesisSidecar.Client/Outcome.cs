// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>The decision about a record.</summary>
    public enum Outcome
    {
        /// <summary>There is no decision yet.</summary>
        None,

        /// <summary>The record is done.</summary>
        Ack,

        /// <summary>The record is redelivered.</summary>
        Retry,

        /// <summary>The record is given up and kept.</summary>
        DeadLetter,

        /// <summary>The record is given up.</summary>
        Drop,
    }
}
