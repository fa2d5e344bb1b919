// SPDX-License-Identifier: Apache-2.0
using System;

namespace KinesisSidecar.Client
{
    /// <summary>The sidecar refused a request. The message has its sentence.</summary>
    public class SidecarException : Exception
    {
        internal SidecarException(int status, string code, string message, long retryAfterMs)
            : base(message)
        {
            Status = status;
            Code = code;
            RetryAfterMs = retryAfterMs;
        }

        /// <summary>The HTTP status; 0 if there was no answer.</summary>
        public int Status { get; }

        /// <summary>The end of the problem's type, for example <c>ordering-conflict</c>; may be empty.</summary>
        public string Code { get; }

        internal long RetryAfterMs { get; }

        /// <summary>Whether the same request may succeed later.</summary>
        internal bool IsTemporary =>
            Status == 429 || Status == 500 || Status == 502 || Status == 503 || Status == 504;

        internal bool IsOrderingConflict => Status == 409 && Code == "ordering-conflict";

        internal bool IsSessionEnded => Status == 409 || Status == 410;
    }
}
