// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>The records that stay in order.</summary>
    public enum Ordering
    {
        /// <summary>Those of a shard.</summary>
        Shard,

        /// <summary>Those of a lane: the partition keys of a shard are divided among its lanes.</summary>
        Key,

        /// <summary>None.</summary>
        None,
    }
}
