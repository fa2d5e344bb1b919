// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace KinesisSidecar.Client
{
    /// <summary>The thread that sends settlements and extensions, and closes the session at the end.</summary>
    internal sealed class SettleThread
    {
        private readonly Settings _settings;
        private readonly ConsumerState _state;
        private readonly SettleClient _client;

        internal SettleThread(Settings settings, ConsumerState state)
        {
            _settings = settings;
            _state = state;
            _client = new SettleClient(settings);
        }

        internal void Run()
        {
            try
            {
                while (_state.AwaitRequest() is SettleRequest request)
                {
                    if (!Send(request))
                        return;
                }
                if (_state.HasSession)
                    EndSession();
            }
            catch (Exception failure)
            {
                _state.Fail(failure);
            }
            finally
            {
                _client.Dispose();
            }
        }

        private void EndSession()
        {
            try
            {
                _client.DeleteSession();
            }
            catch (Exception failure) when (failure is IOException || failure is SidecarException)
            {
                /* The sidecar ends the session by itself, 5 s after its connection. */
            }
        }

        /// <summary>Sends a request until it is answered or its session has ended. Returns false if the consumer closes
        /// and the sidecar does not answer.</summary>
        private bool Send(SettleRequest request)
        {
            var backoff = new Backoff();
            while (true)
            {
                bool isLast = _state.IsClosing;
                long retryAfterMs = 0;
                try
                {
                    var answer = _client.Settle(request.ToJson(), SettleClient.AnswerMs);
                    Take(request, answer);
                    return true;
                }
                catch (SidecarException refused) when (!refused.IsTemporary)
                {
                    if (!refused.IsSessionEnded)
                        _state.Fail(refused);
                    _state.Expired(request);
                    return true;
                }
                catch (SidecarException busy)
                {
                    retryAfterMs = busy.RetryAfterMs;
                }
                catch (IOException)
                {
                    /* The stream thread reports a sidecar that is away. */
                }
                long pauseMs = backoff.Next(retryAfterMs);
                if (request.IsExtension || isLast || !_state.AwaitRepeat(request.Generation, pauseMs))
                {
                    _state.Expired(request);
                    return !isLast;
                }
            }
        }

        private void Take(SettleRequest request, SettleAnswer answer)
        {
            /* An extension that fails is about a record that is redelivered: there is nothing to do. */
            if (request.IsExtension)
                return;
            var refused = answer.Failed.Select(item => new ConsumerEvent("settle_failed", item))
                .Where(request.IsRefused).ToList();
            var reasons = new Dictionary<string, string>();
            foreach (var failure in refused)
                reasons[failure.Text("ack_id")] = failure.Text("reason");
            _state.Answered(request, reasons);
            foreach (var failure in refused)
                _settings.OnEvent?.Invoke(failure);
        }
    }
}
