// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;

namespace KinesisSidecar.Client
{
    /// <summary>Sends requests, one at a time, over a connection that is kept. One thread uses it.</summary>
    internal sealed class SettleClient : IDisposable
    {
        internal const long AnswerMs = 5000;
        private const int BufferBytes = 16 << 10;

        private readonly Settings _settings;
        private HttpConnection _connection;

        internal SettleClient(Settings settings)
        {
            _settings = settings;
        }

        internal SettleAnswer Settle(string json, long timeoutMs) =>
            new SettleAnswer(Exchange("POST", _settings.SettleTarget, json, timeoutMs));

        internal void DeleteSession() => Exchange("DELETE", _settings.SessionTarget, "", AnswerMs);

        public void Dispose()
        {
            _connection?.Dispose();
            _connection = null;
        }

        /// <summary>A kept connection may have been closed while it was idle. Then the request is sent again: settling
        /// is idempotent.</summary>
        private string Exchange(string method, string target, string json, long timeoutMs)
        {
            bool wasKept = _connection != null;
            try
            {
                return ExchangeOnce(method, target, json, timeoutMs);
            }
            catch (IOException lost) when (wasKept && !(lost is HttpTimeoutException))
            {
                return ExchangeOnce(method, target, json, timeoutMs);
            }
        }

        private string ExchangeOnce(string method, string target, string json, long timeoutMs)
        {
            bool isKept = false;
            try
            {
                if (_connection == null)
                    _connection = new HttpConnection(_settings.Address, BufferBytes);
                _connection.SetTimeout(timeoutMs);
                _connection.Request(method, target, _settings.TokenFile, json);
                string answer = _connection.ReadText();
                isKept = _connection.IsKept;
                return answer;
            }
            catch (SidecarException)
            {
                isKept = _connection.IsKept;
                throw;
            }
            finally
            {
                if (!isKept)
                    Dispose();
            }
        }
    }
}
