// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Net;

namespace KinesisSidecar.Client
{
    /// <summary>The address of the sidecar.</summary>
    internal sealed class Address
    {
        private const string Unix = "unix:";

        /// <summary>Null: the sidecar listens on TCP.</summary>
        private readonly string _path;
        private readonly string _host;
        private readonly int _port;

        internal Address(string url)
        {
            Url = url;
            if (url.StartsWith(Unix + "/", StringComparison.Ordinal))
            {
                _path = url.Substring(Unix.Length);
                HostHeader = "localhost";
                return;
            }
            if (!Uri.TryCreate(url, UriKind.Absolute, out var uri) || uri.Scheme != "http" || uri.PathAndQuery != "/")
                throw new ArgumentException("url must be http://HOST:PORT or unix:/PATH, got " + url, nameof(url));
            _host = uri.DnsSafeHost;
            _port = uri.Port;
            HostHeader = uri.Authority;
        }

        internal string Url { get; }

        internal string HostHeader { get; }

        /// <summary>Returns the places to connect to. A host name is looked up again for each connection.</summary>
        internal IEnumerable<EndPoint> Resolve()
        {
            if (_path != null)
                return new[] { UnixEndPointOf(_path) };
            var addresses = IPAddress.TryParse(_host, out var ip) ? new[] { ip } : Dns.GetHostAddresses(_host);
            return addresses.Select(address => new IPEndPoint(address, _port));
        }

#if NET8_0_OR_GREATER
        private static EndPoint UnixEndPointOf(string path) => new System.Net.Sockets.UnixDomainSocketEndPoint(path);
#else
        private static EndPoint UnixEndPointOf(string path) => new UnixEndPoint(path);
#endif
    }
}
