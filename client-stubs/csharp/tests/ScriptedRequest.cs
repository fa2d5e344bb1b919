// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>A request that a client has sent.</summary>
    internal sealed class ScriptedRequest
    {
        private readonly Dictionary<string, string> _headers =
            new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);

        private ScriptedRequest(string method, string target)
        {
            Method = method;
            Target = target;
        }

        internal string Method { get; }

        internal string Target { get; }

        internal string Body { get; private set; }

        internal List<Dictionary<string, object>> Settlements =>
            ((List<object>)Members["settlements"]).Cast<Dictionary<string, object>>().ToList();

        /// <summary>Null: it has none.</summary>
        internal string Barrier => Members.ContainsKey("barrier") ? (string)Members["barrier"] : null;

        private Dictionary<string, object> Members => (Dictionary<string, object>)Json.Parse(Body);

        /// <summary>Returns null at the end of the connection.</summary>
        internal static ScriptedRequest Read(Stream stream)
        {
            string[] words = Line(stream).Split(' ');
            if (words.Length < 3)
                return null;
            var request = new ScriptedRequest(words[0], words[1]);
            for (string line; (line = Line(stream)).Length > 0;)
                request._headers[line.Substring(0, line.IndexOf(':'))] = line.Substring(line.IndexOf(':') + 1).Trim();
            var body = new byte[int.Parse(request.Header("Content-Length") ?? "0")];
            for (int at = 0; at < body.Length;)
                at += stream.Read(body, at, body.Length - at);
            request.Body = Encoding.UTF8.GetString(body);
            return request;
        }

        /// <summary>Null: it has none.</summary>
        internal string Header(string name) => _headers.TryGetValue(name, out var value) ? value : null;

        internal bool Has(string outcome) => Settlements.Any(item => outcome.Equals(item["outcome"]));

        private static string Line(Stream stream)
        {
            var line = new StringBuilder();
            for (int c; (c = stream.ReadByte()) >= 0 && c != '\n';)
            {
                if (c != '\r')
                    line.Append((char)c);
            }
            return line.ToString();
        }
    }
}
