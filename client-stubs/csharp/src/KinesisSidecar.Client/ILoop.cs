// SPDX-License-Identifier: Apache-2.0
namespace KinesisSidecar.Client
{
    /// <summary>A consumer that the app reads by loops.</summary>
    internal interface ILoop
    {
        /// <summary>A loop begins. Records without an outcome, of a loop that was left, are handed out again.</summary>
        void Begin();
    }
}
