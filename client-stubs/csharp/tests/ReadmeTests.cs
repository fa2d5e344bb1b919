// SPDX-License-Identifier: Apache-2.0
using System;
using System.CodeDom.Compiler;
using System.Collections.Generic;
using System.Data.Common;
using System.IO;
using System.Linq;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using KinesisSidecar.Client.Testing;
using Microsoft.CSharp;
using Mono.Data.Sqlite;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>Runs the examples of the README that C# 7 compiles. The others need .NET 8.</summary>
    [TestFixture]
    public class ReadmeTests
    {
        private const string Before = @"
            using System; using System.Linq; using System.Threading.Tasks;
            using KinesisSidecar.Client; using KinesisSidecar.Client.Testing; using KinesisSidecar.Client.Tests;
            using NUnit.Framework;
            public class Example : ExampleOfReadme { public override async Task RunAsync() {";

        [Test]
        public void loops_acknowledge_their_records()
        {
            var example = Run("Ways to read");
            CollectionAssert.AreEqual(new[] { "record", "record" }, example.Seen);
            Assert.AreEqual(2, example.Acknowledged);
        }

        [Test]
        public void effect_is_applied_once()
        {
            var example = Run("Effects at most once");
            CollectionAssert.AreEqual(new[] { "insert", "insert" }, example.Seen);
            Assert.AreEqual(2, example.Acknowledged);
        }

        [Test]
        public void fake_consumer_tests_an_app()
        {
            CollectionAssert.AreEqual(new[] { "app" }, Run("Tests of an app").Seen);
        }

        private static ExampleOfReadme Run(string heading)
        {
            string folder = Directory.GetCurrentDirectory();
            while (!Directory.Exists(Path.Combine(folder, "client-stubs")))
                folder = Path.GetDirectoryName(folder);
            string readme = File.ReadAllText(Path.Combine(folder, "client-stubs/csharp/README.md"));
            string section = readme.Substring(readme.IndexOf("## " + heading, StringComparison.Ordinal));
            string code = Regex.Match(section, "```csharp\n(.*?)```", RegexOptions.Singleline).Groups[1].Value;
            var options = new CompilerParameters { GenerateInMemory = true };
            options.CompilerOptions = "-langversion:experimental";
            options.ReferencedAssemblies.AddRange(AppDomain.CurrentDomain.GetAssemblies()
                .Where(assembly => !assembly.IsDynamic && assembly.GetName().Name != "mscorlib")
                .Select(assembly => assembly.Location).Where(File.Exists).ToArray());
            var compiled = new CSharpCodeProvider().CompileAssemblyFromSource(options, Before + code + "} }");
            Assert.IsEmpty(compiled.Errors.Cast<CompilerError>().Where(error => !error.IsWarning));
            using (var example = (ExampleOfReadme)compiled.CompiledAssembly.CreateInstance("Example"))
            {
                example.RunAsync().GetAwaiter().GetResult();
                return example;
            }
        }
    }

    /// <summary>Has the names that the examples use.</summary>
    public abstract class ExampleOfReadme : IDisposable
    {
        private readonly FakeConsumer _consumer = new FakeConsumer();
        private readonly string _file = Path.GetTempFileName();

        protected ExampleOfReadme()
        {
            _consumer.Add("k", "{}");
            _consumer.Add("k", "{}");
            connection = OpenAsync().Result;
        }

        internal List<string> Seen { get; } = new List<string>();

        internal int Acknowledged => _consumer.Settlements.Count(one => one.Outcome == Outcome.Ack);

        protected IConsumer consumer => _consumer;

        protected ExampleOfReadme app => this;

        protected DbConnection connection { get; }

        protected CancellationToken token => CancellationToken.None;

        public abstract Task RunAsync();

        public void Dispose()
        {
            connection.Dispose();
            File.Delete(_file);
        }

        protected Task HandleAsync(Record record) => See("record");

        protected Task HandleAllAsync(Batch batch) => See("batch");

        protected Task InsertAsync(DbTransaction transaction, Record record) => See("insert");

        public Task ConsumeAsync(IConsumer fake) => fake.RunAsync((record, stop) => See("app"));

        protected Task<DbConnection> OpenAsync()
        {
            var opened = new SqliteConnection("Data Source=" + _file);
            opened.Open();
            return Task.FromResult<DbConnection>(opened);
        }

        private Task See(string what)
        {
            Seen.Add(what);
            return Task.CompletedTask;
        }
    }
}
