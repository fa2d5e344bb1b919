// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>Another process opened a stream with the same client id. The consumer does not connect again.</summary>
    public sealed class SessionTakenOverException : SidecarException
    {
        internal SessionTakenOverException(string clientId)
            : base(0, "", "another process uses the client_id " + clientId, 0)
        {
        }
    }
}
