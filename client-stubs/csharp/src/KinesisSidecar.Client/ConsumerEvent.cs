// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// A control event of the stream, as docs/API.md describes it, or one of the package: <c>disconnected</c> with the
    /// members <c>reason</c> and <c>retry_in_ms</c>, and <c>settle_failed</c> with <c>ack_id</c>, <c>reason</c> and
    /// <c>message</c>. An event of a later sidecar has the type <c>unknown</c>, with the number of its <c>field</c>.
    /// </summary>
    public sealed class ConsumerEvent
    {
        internal ConsumerEvent(string type, Dictionary<string, object> members)
        {
            Type = type;
            Members = members;
        }

        /// <summary>The type, for example <c>lease_lost</c>.</summary>
        public string Type { get; }

        /// <summary>The members by name: <see cref="string"/>, <see cref="long"/> or
        /// <see cref="System.DateTimeOffset"/>.</summary>
        public IReadOnlyDictionary<string, object> Members { get; }

        /// <summary>Returns the type and the members.</summary>
        public override string ToString()
        {
            var words = new List<string> { Type };
            foreach (var member in Members)
                words.Add(member.Key + "=" + member.Value);
            return string.Join(" ", words);
        }

        internal string Text(string name) => Members.TryGetValue(name, out var value) ? value as string ?? "" : "";

        internal long Number(string name) =>
            Members.TryGetValue(name, out var value) && value is long number ? number : 0;
    }
}
