// SPDX-License-Identifier: Apache-2.0
using System.IO;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// An acknowledgement whose caller waits for the checkpoint. It has a connection of its own, because the wait would
    /// delay other settlements.
    /// </summary>
    internal sealed class PersistedAck
    {
        private const long WaitMs = 10000;

        private readonly Settings _settings;
        private readonly ConsumerState _state;
        private readonly long _generation;
        private readonly string _json;

        internal PersistedAck(Settings settings, ConsumerState state, long generation, string ackId)
        {
            _settings = settings;
            _state = state;
            _generation = generation;
            _json = "{\"settlements\":[{\"ack_id\":\"" + ackId + "\",\"outcome\":\"ack\"}],\"wait\":\"persisted\"," +
                "\"wait_ms\":" + WaitMs + "}";
        }

        /// <summary>Returns whether the checkpoint covers the record.</summary>
        internal bool Await()
        {
            var backoff = new Backoff();
            using (var client = new SettleClient(_settings))
            {
                while (true)
                {
                    long retryAfterMs = 0;
                    try
                    {
                        var answer = client.Settle(_json, WaitMs + SettleClient.AnswerMs);
                        return answer.IsPersisted && answer.Failed.Count == 0;
                    }
                    catch (SidecarException ended) when (ended.IsSessionEnded)
                    {
                        return false;
                    }
                    catch (SidecarException refused) when (refused.IsTemporary)
                    {
                        retryAfterMs = refused.RetryAfterMs;
                    }
                    catch (IOException)
                    {
                        /* The request is repeated while its session may be there. */
                    }
                    if (_state.IsClosing || !_state.AwaitRepeat(_generation, backoff.Next(retryAfterMs)))
                        return false;
                }
            }
        }
    }
}
