// SPDX-License-Identifier: Apache-2.0
using System;
using System.IO;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Threading;
using System.Threading.Tasks;
using KinesisSidecar.Client;
using Mono.Unix;
using Mono.Unix.Native;

/// <summary>WAY CLIENT_ID CONCURRENCY: reads records in one way, does what each record orders, and prints it.</summary>
public static class Scenario
{
    private const int TakenOver = 3;
    private static bool _stopped;

    public static int Main(string[] arguments)
    {
        var options = arguments[0] == "race"
            ? new ConsumerOptions { MaxInFlight = 10000 }
            : new ConsumerOptions { AckDeadline = TimeSpan.FromSeconds(2) };
        try
        {
            using (var consumer = new Consumer(arguments[1], options))
            {
                StopAtSigterm(consumer);
                ReadAsync(arguments[0], consumer, int.Parse(arguments[2])).GetAwaiter().GetResult();
            }
        }
        catch (SessionTakenOverException)
        {
            Console.WriteLine("{\"at\":\"taken_over\"}");
            return TakenOver;
        }
        catch (Raised)
        {
            return 0;
        }
        if (_stopped)
            Console.WriteLine("{\"at\":\"stopped\"}");
        return 0;
    }

    private static Task ReadAsync(string way, IConsumer consumer, int concurrency)
    {
        switch (way)
        {
            case "run":
                return consumer.RunAsync((record, token) => new Order(record).ObeyAsync(), concurrency);
            case "each":
                return EachAsync(consumer);
            case "batches":
                return BatchesAsync(consumer);
            case "race":
                return RaceAsync(consumer);
            default:
                throw new ArgumentException("WAY must be run, each, batches or race, got " + way);
        }
    }

    private static async Task EachAsync(IConsumer consumer)
    {
        while (await consumer.NextAsync() is Record record)
        {
            if (!await new Order(record).ObeyInLoopAsync())
                return;
        }
    }

    private static async Task BatchesAsync(IConsumer consumer)
    {
        while (await consumer.NextBatchAsync(100, TimeSpan.FromMilliseconds(200)) is Batch batch)
        {
            foreach (var record in batch)
            {
                if (!await new Order(record).ObeyInLoopAsync())
                    return;
            }
        }
    }

    private static Task RaceAsync(IConsumer consumer)
    {
        long count = 0;
        return consumer.RunAsync((record, token) =>
        {
            if (++count % 1000 == 0)
                Console.WriteLine(count);
            return Task.CompletedTask;
        });
    }

    /// <summary>On .NET 6 and later PosixSignalRegistration does this.</summary>
    private static void StopAtSigterm(IConsumer consumer)
    {
        var sigterm = new UnixSignal(Signum.SIGTERM);
        var thread = new Thread(() =>
        {
            sigterm.WaitOne();
            _stopped = true;
            consumer.Stop();
        });
        thread.IsBackground = true;
        thread.Start();
    }

    /// <summary>Leaves a loop.</summary>
    private sealed class Raised : Exception
    {
    }

    /// <summary>The data of a record.</summary>
    [DataContract]
    private sealed class Data
    {
        [DataMember(Name = "n")]
        public int Number { get; set; }

        [DataMember(Name = "do")]
        public string What { get; set; }

        [DataMember(Name = "times")]
        public int Times { get; set; }

        [DataMember(Name = "ms")]
        public int Milliseconds { get; set; }
    }

    /// <summary>What a record orders.</summary>
    private sealed class Order
    {
        private static readonly DataContractJsonSerializer Json = new DataContractJsonSerializer(typeof(Data));
        private readonly Record _record;
        private readonly Data _data;

        public Order(Record record)
        {
            _record = record;
            _data = (Data)Json.ReadObject(new MemoryStream(record.Data));
        }

        /// <summary>In a run. A failure is an exception.</summary>
        public async Task ObeyAsync()
        {
            Print("begin", "");
            string outcome = await OutcomeAsync();
            if (outcome == "raise")
            {
                Print("raise", "");
                throw new Raised();
            }
            Print("end", outcome == "break" ? "ack" : outcome);
            if (outcome == "retry")
                throw new InvalidOperationException("fail " + _data.Number);
        }

        /// <summary>In a loop. Returns false to leave it.</summary>
        public async Task<bool> ObeyInLoopAsync()
        {
            Print("begin", "");
            string outcome = await OutcomeAsync();
            if (outcome == "break" || outcome == "raise")
            {
                Print(outcome, "");
                return outcome == "break" ? false : throw new Raised();
            }
            if (outcome == "retry")
                _record.Retry(reason: "fail " + _data.Number);
            Print("end", outcome);
            return true;
        }

        private async Task<string> OutcomeAsync()
        {
            switch (_data.What)
            {
                case "slow":
                    await Task.Delay(_data.Milliseconds);
                    return "ack";
                case "fail":
                    return _record.Attempt <= _data.Times ? "retry" : "ack";
                case "dead_letter":
                    _record.DeadLetter("asked " + _data.Number);
                    return _data.What;
                case "drop":
                    _record.Drop();
                    return _data.What;
                case "break":
                case "raise":
                    return _record.Attempt == 1 ? _data.What : "ack";
                default:
                    return "ack";
            }
        }

        private void Print(string at, string outcome)
        {
            Console.WriteLine(
                "{\"n\":" + _data.Number + ",\"attempt\":" + _record.Attempt + ",\"at\":\"" + at + "\"" +
                (outcome.Length > 0 ? ",\"outcome\":\"" + outcome + "\"" : "") + "}");
        }
    }
}
