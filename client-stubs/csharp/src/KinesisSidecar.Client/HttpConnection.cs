// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// One HTTP/1.1 connection, over TCP or a Unix socket. HttpClient of .NET Standard 2.0 knows no Unix sockets. One
    /// thread uses a connection; <see cref="Dispose"/> may be called from any thread. Failures are an <see
    /// cref="IOException"/>.
    /// </summary>
    internal sealed class HttpConnection : IDisposable
    {
        /// <summary>A sidecar on this machine accepts at once or not at all.</summary>
        private const int ConnectMs = 5000;
        private const int MaxLineBytes = 16 << 10;
        private const int MaxHeaders = 100;
        private const int MaxAnswerBytes = 1 << 20;
        private const int UntilClose = -1;

        private readonly string _host;
        private readonly Socket _socket;
        private readonly byte[] _in;
        private int _at;
        private int _end;

        private int _status;
        private long _retryAfterMs;
        private bool _isChunked;

        /// <summary>Bytes that are left of the body, or of the chunk.</summary>
        private long _left;

        internal HttpConnection(Address address, int bufferBytes)
        {
            _host = address.HostHeader;
            _in = new byte[bufferBytes];
            _socket = Connect(address);
        }

        /// <summary>Whether the answer allows a further request on this connection.</summary>
        internal bool IsKept { get; private set; }

        /// <summary>Sets how long a read or a write may wait for the sidecar.</summary>
        internal void SetTimeout(long milliseconds)
        {
            try
            {
                _socket.ReceiveTimeout = _socket.SendTimeout = (int)Math.Min(milliseconds, int.MaxValue);
            }
            catch (Exception closed) when (IsOfSocket(closed))
            {
                throw Lost(closed);
            }
        }

        /// <summary>
        /// Sends a request and reads the head of its answer. The token is read anew, because it may have been rotated.
        /// The body is JSON; null: none. An answer that is not 200 is a <see cref="SidecarException"/>.
        /// </summary>
        internal void Request(string method, string target, string tokenFile, string body)
        {
            var head = new StringBuilder(method).Append(' ').Append(target).Append(" HTTP/1.1\r\nHost: ").Append(_host);
            if (tokenFile != null)
                head.Append("\r\nAuthorization: Bearer ").Append(ReadToken(tokenFile));
            if (body == null)
            {
                head.Append("\r\nAccept: application/x-protobuf\r\n\r\n");
            }
            else
            {
                head.Append("\r\nContent-Type: application/json\r\nContent-Length: ")
                    .Append(Encoding.UTF8.GetByteCount(body)).Append("\r\n\r\n").Append(body);
            }
            Send(Encoding.UTF8.GetBytes(head.ToString()));
            ReadHead();
            if (_status != 200)
                throw ReadRefusal();
        }

        private static string ReadToken(string path)
        {
            try
            {
                return File.ReadAllText(path).Trim();
            }
            catch (Exception failure) when (failure is IOException || failure is UnauthorizedAccessException)
            {
                throw new IOException("cannot read the token file: " + failure.Message, failure);
            }
        }

        /// <summary>Reads the rest of the answer as text.</summary>
        internal string ReadText()
        {
            var content = new MemoryStream();
            var part = new byte[8192];
            for (int count; (count = ReadBody(part, 0, part.Length)) >= 0;)
            {
                content.Write(part, 0, count);
                if (content.Length > MaxAnswerBytes)
                    throw new IOException("the answer has more than " + MaxAnswerBytes + " bytes");
            }
            return Encoding.UTF8.GetString(content.ToArray());
        }

        /// <summary>Reads bytes of the body. Returns their number, or -1 at the end.</summary>
        internal int ReadBody(byte[] target, int offset, int length)
        {
            if (_left == 0 && !(_isChunked && NextChunk()))
                return -1;
            if (_at == _end && !Receive())
            {
                if (_left == UntilClose)
                    return -1;
                throw new EndOfStreamException("the sidecar closed the connection");
            }
            int count = Math.Min(length, _end - _at);
            if (_left > 0)
                count = (int)Math.Min(count, _left);
            Buffer.BlockCopy(_in, _at, target, offset, count);
            _at += count;
            if (_left > 0)
            {
                _left -= count;
                if (_left == 0 && _isChunked && ReadLine().Length > 0)
                    throw new IOException("the answer has a malformed chunk");
            }
            return count;
        }

        public void Dispose()
        {
            try
            {
                /* A thread that waits in a read returns from it by this, on every runtime. */
                _socket.Shutdown(SocketShutdown.Both);
            }
            catch (Exception gone) when (IsOfSocket(gone))
            {
            }
            _socket.Dispose();
        }

        private static Socket Connect(Address address)
        {
            string reason = "the host name has no address";
            try
            {
                foreach (var place in address.Resolve())
                {
                    if (TryConnect(place, out var socket, out reason))
                        return socket;
                }
            }
            catch (SocketException unknownHost)
            {
                reason = unknownHost.Message;
            }
            throw new IOException("cannot connect to " + address.Url + ": " + reason);
        }

        private static bool TryConnect(EndPoint place, out Socket socket, out string reason)
        {
            bool isUnix = place.AddressFamily == AddressFamily.Unix;
            socket = new Socket(
                place.AddressFamily, SocketType.Stream, isUnix ? ProtocolType.Unspecified : ProtocolType.Tcp);
            reason = null;
            try
            {
                if (!isUnix)
                    socket.NoDelay = true;
                socket.SendTimeout = ConnectMs;
                socket.Connect(place);
                return true;
            }
            catch (Exception refused) when (IsOfSocket(refused))
            {
                reason = refused.Message;
            }
            socket.Dispose();
            return false;
        }

        private void Send(byte[] bytes)
        {
            try
            {
                for (int sent = 0; sent < bytes.Length;)
                    sent += _socket.Send(bytes, sent, bytes.Length - sent, SocketFlags.None);
            }
            catch (Exception lost) when (IsOfSocket(lost))
            {
                throw Lost(lost);
            }
        }

        /// <summary>Reads what is there, or waits. Returns false at the end of the connection.</summary>
        private bool Receive()
        {
            try
            {
                _at = _end = 0;
                _end = _socket.Receive(_in, 0, _in.Length, SocketFlags.None);
                return _end > 0;
            }
            catch (Exception lost) when (IsOfSocket(lost))
            {
                throw Lost(lost);
            }
        }

        private static bool IsOfSocket(Exception failure) =>
            failure is SocketException || failure is ObjectDisposedException;

        private static IOException Lost(Exception failure)
        {
            /* A read that times out is WouldBlock on some runtimes. */
            if (failure is SocketException socket && (socket.SocketErrorCode == SocketError.TimedOut ||
                    socket.SocketErrorCode == SocketError.WouldBlock))
                return new HttpTimeoutException();
            return new IOException(failure.Message, failure);
        }

        private SidecarException ReadRefusal()
        {
            string text = ReadText();
            var problem = new Dictionary<string, object>();
            try
            {
                problem = Json.Parse(text) as Dictionary<string, object> ?? problem;
            }
            catch (IOException)
            {
                /* The HTTP library of the sidecar refuses some requests with a body of its own. */
            }
            string type = TextOf(problem, "type");
            string code = type.Length > 0 ? type.Substring(type.LastIndexOf(':') + 1) : TextOf(problem, "code");
            string detail = TextOf(problem, "detail");
            string message = _status + " " + (detail.Length > 0 ? detail : "refused");
            return new SidecarException(_status, code, message, _retryAfterMs);
        }

        private static string TextOf(Dictionary<string, object> members, string name) =>
            members.TryGetValue(name, out var value) ? value as string ?? "" : "";

        private void ReadHead()
        {
            do
            {
                string[] words = ReadLine().Split(new[] { ' ' }, 3);
                if (words.Length < 2 || !words[0].StartsWith("HTTP/1.", StringComparison.Ordinal) ||
                        !int.TryParse(words[1], NumberStyles.None, CultureInfo.InvariantCulture, out _status))
                    throw new IOException("the answer is not HTTP/1.1");
                ReadHeaders();
            }
            while (_status < 200);
        }

        private void ReadHeaders()
        {
            _isChunked = false;
            _retryAfterMs = 0;
            _left = UntilClose;
            IsKept = true;
            int count = 0;
            for (string line; (line = ReadLine()).Length > 0; count++)
            {
                int colon = line.IndexOf(':');
                if (colon < 1 || count == MaxHeaders)
                    throw new IOException("the answer has a malformed header, or more than " + MaxHeaders);
                TakeHeader(line.Substring(0, colon).ToLowerInvariant(), line.Substring(colon + 1).Trim());
            }
            if (_status == 204 || _status < 200)
                _left = 0;
            IsKept &= _left != UntilClose;
        }

        private void TakeHeader(string name, string value)
        {
            switch (name)
            {
                case "content-length":
                    _left = NumberOf(value, NumberStyles.None);
                    break;
                case "transfer-encoding":
                    _isChunked = true;
                    _left = 0;
                    break;
                case "connection":
                    IsKept = !value.Equals("close", StringComparison.OrdinalIgnoreCase);
                    break;
                case "retry-after":
                    if (int.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var seconds))
                        _retryAfterMs = seconds * 1000L;
                    break;
            }
        }

        private bool NextChunk()
        {
            _left = NumberOf(ReadLine().Split(';')[0].Trim(), NumberStyles.AllowHexSpecifier);
            if (_left > 0)
                return true;
            while (ReadLine().Length > 0)
                continue;
            _isChunked = false;
            return false;
        }

        private static int NumberOf(string digits, NumberStyles style)
        {
            if (!int.TryParse(digits, style, CultureInfo.InvariantCulture, out var number) || number < 0)
                throw new IOException("the answer has a malformed length");
            return number;
        }

        private string ReadLine()
        {
            var line = new StringBuilder();
            while (true)
            {
                if (_at == _end && !Receive())
                    throw new EndOfStreamException("the sidecar closed the connection");
                char c = (char)_in[_at++];
                if (c == '\n')
                    break;
                if (line.Append(c).Length > MaxLineBytes)
                    throw new IOException("the answer has a line of more than " + MaxLineBytes + " bytes");
            }
            if (line.Length > 0 && line[line.Length - 1] == '\r')
                line.Length--;
            return line.ToString();
        }
    }
}
