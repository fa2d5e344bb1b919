// SPDX-License-Identifier: Apache-2.0
#if !NET8_0_OR_GREATER
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>The address of a Unix socket. .NET Standard 2.0 has none.</summary>
    internal sealed class UnixEndPoint : EndPoint
    {
        private const int FamilyBytes = 2;
        private readonly string _path;

        internal UnixEndPoint(string path)
        {
            _path = path;
        }

        public override AddressFamily AddressFamily => AddressFamily.Unix;

        public override SocketAddress Serialize()
        {
            byte[] path = Encoding.UTF8.GetBytes(_path);
            var address = new SocketAddress(AddressFamily.Unix, FamilyBytes + path.Length + 1);
            for (int i = 0; i < path.Length; i++)
                address[FamilyBytes + i] = path[i];
            return address;
        }

        public override EndPoint Create(SocketAddress socketAddress) => this;

        public override string ToString() => _path;
    }
}
#endif
