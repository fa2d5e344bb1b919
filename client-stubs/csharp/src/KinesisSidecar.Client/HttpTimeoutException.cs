// SPDX-License-Identifier: Apache-2.0
using System.IO;

namespace KinesisSidecar.Client
{
    internal sealed class HttpTimeoutException : IOException
    {
        internal HttpTimeoutException()
            : base("nothing came from the sidecar in time")
        {
        }
    }
}
