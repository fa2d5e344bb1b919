// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Mono.Unix.Native;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>The sidecar's binary with a local stream, in a folder of its own.</summary>
    internal sealed class RealSidecar : IDisposable
    {
        private readonly List<string> _arguments;
        private readonly ConcurrentQueue<string> _log = new ConcurrentQueue<string>();
        private readonly Address _address;
        private readonly string _folder;
        private readonly string _tokenFile;
        private Process _process;

        internal RealSidecar(params string[] options)
            : this(NewFolder(), null, null, options)
        {
        }

        private RealSidecar(string folder, string url, string tokenFile, IEnumerable<string> options)
        {
            _folder = folder;
            Url = url ?? "http://127.0.0.1:" + FreePort();
            _address = new Address(Url);
            _tokenFile = tokenFile;
            _arguments = new List<string>
            {
                "--source", "local:" + Path.Combine(folder, "stream.db"), "--stream", "demo", "--application", "demo",
                "--initial-position", "trim_horizon", "--state-dir", folder, "--listen", Url.Replace("http://", ""),
                "--ops-listen", "127.0.0.1:" + FreePort(), "--worker-id", "test", "--lease-duration-ms", "2000",
                "--retry-backoff-ms", "50",
            };
            _arguments.AddRange(options);
            Start();
        }

        internal string Url { get; }

        /// <summary>Starts a sidecar that wants a token.</summary>
        internal static RealSidecar OnUnixSocket()
        {
            string folder = NewFolder();
            string token = Path.Combine(folder, "token");
            File.WriteAllText(token, "secret-of-the-test-000000\n");
            Syscall.chmod(token, FilePermissions.S_IRUSR);
            return new RealSidecar(folder, "unix:" + folder + "/api.sock", token, new[] { "--token-file", token });
        }

        private static string NewFolder()
        {
            string folder = Path.Combine(Path.GetTempPath(), "kinesis-sidecar-" + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(folder);
            return folder;
        }

        internal void Start()
        {
            _process = Process.Start(new ProcessStartInfo(Binary(), string.Join(" ", _arguments))
            {
                UseShellExecute = false,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            });
            _process.OutputDataReceived += (sender, line) => _log.Enqueue(line.Data);
            _process.ErrorDataReceived += (sender, line) => _log.Enqueue(line.Data);
            _process.BeginOutputReadLine();
            _process.BeginErrorReadLine();
            Eventually.Until("the sidecar is ready", IsReady);
        }

        /// <summary>Kills it by SIGKILL.</summary>
        internal void Kill()
        {
            if (!_process.HasExited)
                _process.Kill();
            _process.WaitForExit();
        }

        public void Dispose()
        {
            Kill();
            Directory.Delete(_folder, true);
        }

        internal Consumer Consumer(string clientId, Action<ConsumerOptions> configure = null)
        {
            var options = new ConsumerOptions { Url = Url, TokenFile = _tokenFile };
            configure?.Invoke(options);
            return new Consumer(clientId, options);
        }

        internal void Put(IEnumerable<string> data, Func<string, string> keyOf)
        {
            var entries = data.Select(text => "{\"PartitionKey\":\"" + keyOf(text) + "\",\"Data\":\"" +
                Convert.ToBase64String(Encoding.UTF8.GetBytes(text)) + "\"}");
            Request("POST", "/v1/local/records", "{\"Records\":[" + string.Join(",", entries) + "]}");
        }

        internal List<Dictionary<string, object>> List(string path, string member) =>
            ((List<object>)Request("GET", path, "")[member]).Cast<Dictionary<string, object>>().ToList();

        internal double SumOfShards(string member) => List("/v1/shards", "shards").Sum(shard => (double)shard[member]);

        internal void UntilSettled(int count) => Eventually.Until(
            count + " records are settled", () => SumOfShards("settled") == count && SumOfShards("in_flight") == 0);

        private static string Binary()
        {
            string binary = Environment.GetEnvironmentVariable("KINESIS_SIDECAR_BIN");
            if (binary == null || !File.Exists(binary))
                Assert.Fail("KINESIS_SIDECAR_BIN must name the binary of the sidecar, got " + binary);
            return binary;
        }

        private static int FreePort()
        {
            var probe = new TcpListener(IPAddress.Loopback, 0);
            probe.Start();
            int port = ((IPEndPoint)probe.LocalEndpoint).Port;
            probe.Stop();
            return port;
        }

        private bool IsReady()
        {
            Assert.IsFalse(_process.HasExited, "the sidecar has ended: {0}", string.Join("\n", _log));
            try
            {
                return true.Equals(Request("GET", "/v1/status", "")["ready"]);
            }
            catch (IOException)
            {
                return false;
            }
        }

        private Dictionary<string, object> Request(string method, string path, string json)
        {
            using (var connection = new HttpConnection(_address, 8192))
            {
                connection.SetTimeout(30000);
                connection.Request(method, path, _tokenFile, json);
                return (Dictionary<string, object>)Json.Parse(connection.ReadText());
            }
        }
    }
}
