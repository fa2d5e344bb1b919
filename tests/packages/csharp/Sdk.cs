// SPDX-License-Identifier: Apache-2.0
// This is a plain HTTP loop, not the AWS SDK for .NET: the test machines do not reach nuget.org. It does less work than
// the SDK, which also makes request and result objects, retries, and calls handlers.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Security.Cryptography;
using System.Text;
using System.Threading;

/// <summary>COUNT: reads COUNT records of the stream `demo` from Kinesis itself, and prints their number after each
/// 1,000.
/// </summary>
public static class Sdk
{
    private const int Limit = 10000;
    private const int IdleMilliseconds = 200;

    public static void Main(string[] arguments)
    {
        int wanted = int.Parse(arguments[0]);
        var kinesis = new Kinesis(new Uri(Variable("AWS_ENDPOINT_URL_KINESIS", null)));
        var iterators = kinesis.Call<ShardsAnswer>("ListShards", "{\"StreamName\":\"demo\"}").Shards
            .Select(shard => "{\"StreamName\":\"demo\",\"ShardId\":\"" + shard.ShardId +
                "\",\"ShardIteratorType\":\"TRIM_HORIZON\"}")
            .Select(body => kinesis.Call<IteratorAnswer>("GetShardIterator", body).ShardIterator)
            .ToList();
        long count = 0, bytes = 0;
        while (count < wanted)
        {
            long before = count;
            for (int i = 0; i < iterators.Count; i++)
            {
                var answer = kinesis.Call<RecordsAnswer>(
                    "GetRecords", "{\"ShardIterator\":\"" + iterators[i] + "\",\"Limit\":" + Limit + "}");
                if (answer == null)
                    continue;
                iterators[i] = answer.NextShardIterator;
                foreach (var record in answer.Records)
                {
                    bytes += Convert.FromBase64String(record.Data).Length;
                    if (++count % 1000 == 0)
                        Console.WriteLine(count);
                }
            }
            iterators.RemoveAll(iterator => iterator == null);
            if (count == before)
                Thread.Sleep(IdleMilliseconds);
        }
    }

    private static string Variable(string name, string otherwise) =>
        Environment.GetEnvironmentVariable(name) ?? otherwise;

    [DataContract]
    private sealed class ShardsAnswer
    {
        [DataMember]
        public List<Shard> Shards { get; set; }
    }

    [DataContract]
    private sealed class Shard
    {
        [DataMember]
        public string ShardId { get; set; }
    }

    [DataContract]
    private sealed class IteratorAnswer
    {
        [DataMember]
        public string ShardIterator { get; set; }
    }

    [DataContract]
    private sealed class RecordsAnswer
    {
        [DataMember]
        public List<RecordAnswer> Records { get; set; }

        [DataMember]
        public string NextShardIterator { get; set; }
    }

    [DataContract]
    private sealed class RecordAnswer
    {
        [DataMember]
        public string Data { get; set; }

        [DataMember]
        public string PartitionKey { get; set; }

        [DataMember]
        public string SequenceNumber { get; set; }

        [DataMember]
        public double ApproximateArrivalTimestamp { get; set; }
    }

    /// <summary>Calls Kinesis over connections that stay open.</summary>
    private sealed class Kinesis
    {
        private readonly HttpClient _client = new HttpClient();
        private readonly Uri _url;
        private readonly string _region = Variable("AWS_REGION", "us-east-1");
        private readonly string _accessKey = Variable("AWS_ACCESS_KEY_ID", "none");
        private readonly string _secretKey = Variable("AWS_SECRET_ACCESS_KEY", "none");

        public Kinesis(Uri url)
        {
            _url = url;
            ServicePointManager.Expect100Continue = false;
        }

        /// <summary>Returns null if Kinesis throttles the call.</summary>
        public T Call<T>(string operation, string body)
            where T : class
        {
            using (var answer = _client.SendAsync(Request(operation, body)).GetAwaiter().GetResult())
            {
                if (answer.StatusCode == HttpStatusCode.OK)
                {
                    var content = answer.Content.ReadAsStreamAsync().GetAwaiter().GetResult();
                    return (T)new DataContractJsonSerializer(typeof(T)).ReadObject(content);
                }
                string problem = answer.Content.ReadAsStringAsync().GetAwaiter().GetResult();
                if (problem.Contains("ProvisionedThroughputExceededException"))
                    return null;
                throw new IOException(operation + ": " + answer.StatusCode + " " + problem);
            }
        }

        private HttpRequestMessage Request(string operation, string body)
        {
            var headers = new SortedDictionary<string, string>(StringComparer.Ordinal)
            {
                ["content-type"] = "application/x-amz-json-1.1",
                ["host"] = _url.Authority,
                ["x-amz-date"] = DateTime.UtcNow.ToString("yyyyMMdd'T'HHmmss'Z'"),
                ["x-amz-target"] = "Kinesis_20131202." + operation,
            };
            var request = new HttpRequestMessage(HttpMethod.Post, _url);
            request.Content = new ByteArrayContent(Encoding.UTF8.GetBytes(body));
            request.Content.Headers.TryAddWithoutValidation("content-type", headers["content-type"]);
            request.Headers.TryAddWithoutValidation("x-amz-date", headers["x-amz-date"]);
            request.Headers.TryAddWithoutValidation("x-amz-target", headers["x-amz-target"]);
            request.Headers.TryAddWithoutValidation("authorization", Authorization(headers, body));
            return request;
        }

        /// <summary>Signs a request by Signature Version 4.</summary>
        private string Authorization(SortedDictionary<string, string> headers, string body)
        {
            string names = string.Join(";", headers.Keys);
            string lines = string.Concat(headers.Select(header => header.Key + ":" + header.Value + "\n"));
            string request = "POST\n/\n\n" + lines + "\n" + names + "\n" + Hash(body);
            string date = headers["x-amz-date"];
            string[] parts = { date.Substring(0, 8), _region, "kinesis", "aws4_request" };
            string scope = string.Join("/", parts);
            byte[] key = Encoding.UTF8.GetBytes("AWS4" + _secretKey);
            foreach (string part in parts)
                key = Sign(key, part);
            string signature = Hex(Sign(key, "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + Hash(request)));
            return "AWS4-HMAC-SHA256 Credential=" + _accessKey + "/" + scope + ", SignedHeaders=" + names +
                ", Signature=" + signature;
        }

        private static string Hash(string text)
        {
            using (var hash = SHA256.Create())
                return Hex(hash.ComputeHash(Encoding.UTF8.GetBytes(text)));
        }

        private static byte[] Sign(byte[] key, string text)
        {
            using (var hash = new HMACSHA256(key))
                return hash.ComputeHash(Encoding.UTF8.GetBytes(text));
        }

        private static string Hex(byte[] bytes) => BitConverter.ToString(bytes).Replace("-", "").ToLowerInvariant();
    }
}
