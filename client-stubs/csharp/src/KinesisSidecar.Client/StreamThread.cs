// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;

namespace KinesisSidecar.Client
{
    /// <summary>The thread that reads the stream, and connects again when the connection is lost.</summary>
    internal sealed class StreamThread
    {
        private const int BufferBytes = 128 << 10;

        /// <summary>Longer than a sidecar looks for a shard that it does not know.</summary>
        private const long OpenMs = 30000;
        private const int MissedHeartbeats = 3;

        private readonly Settings _settings;
        private readonly ConsumerState _state;
        private readonly MessageBuffer _messages;
        private readonly Backoff _backoff = new Backoff();
        private readonly ManualResetEventSlim _closed = new ManualResetEventSlim();
        private volatile HttpConnection _connection;

        internal StreamThread(Settings settings, ConsumerState state)
        {
            _settings = settings;
            _state = state;
            _messages = new MessageBuffer(new EventDecoder(state));
        }

        internal void Run()
        {
            try
            {
                while (!_state.IsClosing)
                    Connect();
            }
            catch (Exception failure)
            {
                _state.Fail(failure);
            }
        }

        /// <summary>Ends the thread.</summary>
        internal void Close()
        {
            _closed.Set();
            _connection?.Dispose();
        }

        /// <summary>Reads one connection to its end, and waits until the next one.</summary>
        private void Connect()
        {
            long retryAfterMs = 0;
            string reason = "the sidecar ended the stream";
            try
            {
                using (var connection = new HttpConnection(_settings.Address, BufferBytes))
                {
                    _connection = connection;
                    if (!_closed.IsSet)
                        Read(connection);
                }
            }
            catch (IOException lost)
            {
                reason = lost is HttpTimeoutException ? "no heartbeat" : lost.Message;
            }
            catch (SidecarException refused) when (refused.IsTemporary || refused.IsOrderingConflict)
            {
                retryAfterMs = refused.RetryAfterMs;
                reason = refused.Message;
            }
            _state.Disconnected();
            if (_state.IsClosing)
                return;
            long pauseMs = _backoff.Next(retryAfterMs);
            _settings.OnEvent?.Invoke(new ConsumerEvent(
                "disconnected", new Dictionary<string, object> { ["reason"] = reason, ["retry_in_ms"] = pauseMs }));
            _closed.Wait((int)pauseMs);
        }

        private void Read(HttpConnection connection)
        {
            connection.SetTimeout(OpenMs);
            connection.Request("GET", _settings.StreamTarget(), _settings.TokenFile, null);
            _messages.Clear();
            while (_messages.Fill(connection))
            {
                var items = _messages.Decode();
                _state.Apply(items);
                foreach (var item in items)
                {
                    if (item is ConsumerEvent control)
                        Handle(control, connection);
                }
            }
        }

        private void Handle(ConsumerEvent control, HttpConnection connection)
        {
            if (control.Type == "session")
            {
                connection.SetTimeout((control.Number("heartbeat_ms") * MissedHeartbeats) + 1000);
                _backoff.Reset();
            }
            _settings.OnEvent?.Invoke(control);
            if (control.Type == "ended" && control.Text("reason") == "taken_over")
                throw new SessionTakenOverException(_settings.ClientId);
        }
    }
}
