// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace KinesisSidecar.Client
{
    /// <summary>The answer to a settle request.</summary>
    internal sealed class SettleAnswer
    {
        internal SettleAnswer(string json)
        {
            if (!(Json.Parse(json) is Dictionary<string, object> members))
                throw new IOException("the answer of the sidecar is not a JSON object");
            IsPersisted = members.TryGetValue("persisted", out var persisted) && true.Equals(persisted);
            if (members.TryGetValue("failed", out var failed) && failed is List<object> items)
                Failed = items.OfType<Dictionary<string, object>>().ToList();
        }

        /// <summary>The items that were refused one by one.</summary>
        internal List<Dictionary<string, object>> Failed { get; } = new List<Dictionary<string, object>>();

        /// <summary>Whether the checkpoints cover all that was accepted.</summary>
        internal bool IsPersisted { get; }
    }
}
