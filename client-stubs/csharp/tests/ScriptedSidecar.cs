// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>A small HTTP server that plays a script.</summary>
    internal sealed class ScriptedSidecar : IDisposable
    {
        /// <summary>An answer that closes the connection in its place.</summary>
        internal const string NoAnswer = "";

        internal const string Busy = "HTTP/1.1 503 Word\r\nContent-Length: 0\r\n\r\n";

        private readonly TcpListener _server = new TcpListener(IPAddress.Loopback, 0);
        private readonly ConcurrentBag<Socket> _sockets = new ConcurrentBag<Socket>();
        private int _deletes;

        internal ScriptedSidecar()
        {
            _server.Start();
            Start(Accept);
        }

        internal static string Ok =>
            Answer(200, "", "{\"ok\":1,\"failed\":[],\"persisted\":true,\"positions\":[]}");

        internal string Url => "http://127.0.0.1:" + ((IPEndPoint)_server.LocalEndpoint).Port;

        /// <summary>What the connections to the stream do, one after the other.</summary>
        internal BlockingCollection<Action<ScriptedStream>> Scripts { get; } =
            new BlockingCollection<Action<ScriptedStream>>();

        internal ConcurrentQueue<ScriptedRequest> Streams { get; } = new ConcurrentQueue<ScriptedRequest>();

        internal ConcurrentQueue<ScriptedRequest> Settles { get; } = new ConcurrentQueue<ScriptedRequest>();

        internal Func<ScriptedRequest, string> SettleAnswer { get; set; } = request => Ok;

        /// <summary>The last stream that was opened.</summary>
        internal ScriptedStream Stream { get; private set; }

        internal int Deletes => Volatile.Read(ref _deletes);

        public void Dispose()
        {
            _server.Stop();
            foreach (var socket in _sockets)
                socket.Close();
        }

        internal static string Answer(int status, string headers, string body) =>
            "HTTP/1.1 " + status + " Word\r\n" + headers + "Content-Length: " + body.Length + "\r\n\r\n" + body;

        internal static string Problem(int status, string code, string headers = "") =>
            Answer(status, headers, "{\"type\":\"urn:kinesis-sidecar:problem:" + code + "\",\"status\":" + status +
                ",\"detail\":\"the sentence\",\"code\":\"aborted\"}");

        internal static string Refused(string ackId, string reason) =>
            Answer(200, "", "{\"ok\":0,\"failed\":[{\"ack_id\":\"" + ackId + "\",\"reason\":\"" + reason +
                "\",\"message\":\"the sentence\"}],\"persisted\":true,\"positions\":[]}");

        internal Consumer Consumer(Action<ConsumerOptions> configure = null)
        {
            var options = new ConsumerOptions { Url = Url };
            configure?.Invoke(options);
            return new Consumer("test", options);
        }

        /// <summary>Opens a session, delivers the records of a batch, and keeps the stream open.</summary>
        internal void Deliver(string batch, params int[] numbers)
        {
            Scripts.Add(open =>
            {
                open.Begin();
                foreach (int number in numbers)
                    open.Record(batch, number);
                open.Heartbeat();
                open.Stay();
            });
        }

        internal List<ScriptedRequest> SettlesWith(string outcome) =>
            Settles.Where(request => request.Has(outcome)).ToList();

        /// <summary>Returns a member of all settlements that have it and the outcome.</summary>
        internal List<object> Settled(string outcome, string member) =>
            Settles.SelectMany(request => request.Settlements)
                .Where(item => outcome.Equals(item["outcome"]) && item.ContainsKey(member))
                .Select(item => item[member]).ToList();

        private static void Start(Action work)
        {
            new Thread(() =>
            {
                try
                {
                    work();
                }
                catch (Exception closed) when (closed is SocketException || closed is IOException ||
                    closed is ObjectDisposedException || closed is InvalidOperationException)
                {
                    /* The test has ended, or the client has closed the connection. */
                }
            })
            { IsBackground = true }.Start();
        }

        private void Accept()
        {
            while (true)
            {
                var socket = _server.AcceptSocket();
                socket.NoDelay = true;
                _sockets.Add(socket);
                Start(() => Serve(socket));
            }
        }

        private void Serve(Socket socket)
        {
            using (socket)
            using (var stream = new NetworkStream(socket))
            {
                while (ScriptedRequest.Read(stream) is ScriptedRequest request)
                {
                    if (request.Method == "GET")
                    {
                        Streams.Enqueue(request);
                        Stream = new ScriptedStream(stream);
                        Scripts.Take()(Stream);
                        return;
                    }
                    string answer = request.Method == "DELETE" ? Deleted() : Settle(request);
                    if (answer == NoAnswer)
                        return;
                    byte[] bytes = Encoding.UTF8.GetBytes(answer);
                    stream.Write(bytes, 0, bytes.Length);
                }
            }
        }

        private string Deleted()
        {
            Interlocked.Increment(ref _deletes);
            return Answer(200, "", "{\"session\":\"test\"}");
        }

        private string Settle(ScriptedRequest request)
        {
            Settles.Enqueue(request);
            return SettleAnswer(request);
        }
    }
}
