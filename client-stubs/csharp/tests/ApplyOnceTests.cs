// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Data;
using System.Text;
using System.Threading.Tasks;
using KinesisSidecar.Client.Testing;
using Mono.Data.Sqlite;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    [TestFixture]
    public class ApplyOnceTests
    {
        private SqliteConnection _connection;

        [SetUp]
        public void Open()
        {
            _connection = new SqliteConnection("Data Source=:memory:");
            _connection.Open();
            ApplyOnce.CreateTable(_connection);
            ApplyOnce.CreateTable(_connection);
            Execute(null, "CREATE TABLE orders (id TEXT)");
        }

        [TearDown]
        public void Close() => _connection.Dispose();

        [Test]
        public void redelivery_has_no_effect()
        {
            Assert.IsTrue(Apply(Make("7", "100")));
            Assert.IsFalse(Apply(Make("7", "100")));
            CollectionAssert.AreEqual(new[] { "7" }, Orders());
        }

        [Test]
        public async Task asynchronous_redelivery_has_no_effect()
        {
            for (int attempt = 1; attempt <= 2; attempt++)
            {
                var record = Make("7", "100");
                bool isNew = await ApplyOnce.ApplyAsync(_connection, "orders", record, transaction =>
                {
                    Insert(transaction, record);
                    return Task.CompletedTask;
                });
                Assert.AreEqual(attempt == 1, isNew);
            }
            CollectionAssert.AreEqual(new[] { "7" }, Orders());
        }

        [Test]
        public void records_of_an_aggregate_are_told_apart()
        {
            Assert.IsTrue(Apply(Make("0", "100", 0)));
            Assert.IsTrue(Apply(Make("1", "100", 1)));
            CollectionAssert.AreEqual(new[] { "0", "1" }, Orders());
        }

        [Test]
        public void failed_effect_leaves_no_position()
        {
            var record = Make("7", "100");
            Action<IDbTransaction> fail = transaction =>
            {
                Insert(transaction, record);
                throw new InvalidOperationException("of the effect");
            };
            Assert.Throws<InvalidOperationException>(() => ApplyOnce.Apply(_connection, "orders", record, fail));
            Assert.IsEmpty(Orders());
            Assert.IsTrue(Apply(record));
        }

        [Test]
        public void old_positions_are_forgotten()
        {
            Apply(Make("7", "100"));
            Assert.AreEqual(0, ApplyOnce.ForgetBefore(_connection, "orders", DateTime.UtcNow.AddDays(-1)));
            Assert.AreEqual(1, ApplyOnce.ForgetBefore(_connection, "orders", DateTime.UtcNow.AddDays(1)));
            Assert.IsTrue(Apply(Make("7", "100")));
        }

        private static Record Make(string data, string sequenceNumber, long subSequenceNumber = 0) =>
            new FakeConsumer().Add("k", Encoding.UTF8.GetBytes(data), sequenceNumber, subSequenceNumber);

        private bool Apply(Record record) =>
            ApplyOnce.Apply(_connection, "orders", record, transaction => Insert(transaction, record));

        private void Insert(IDbTransaction transaction, Record record) =>
            Execute(transaction, "INSERT INTO orders VALUES ('" + Encoding.UTF8.GetString(record.Data) + "')");

        private void Execute(IDbTransaction transaction, string text)
        {
            using (var command = ((IDbConnection)_connection).CreateCommand())
            {
                command.Transaction = transaction;
                command.CommandText = text;
                command.ExecuteNonQuery();
            }
        }

        private List<string> Orders()
        {
            var orders = new List<string>();
            using (var command = new SqliteCommand("SELECT id FROM orders ORDER BY id", _connection))
            using (var rows = command.ExecuteReader())
            {
                while (rows.Read())
                    orders.Add(rows.GetString(0));
            }
            return orders;
        }
    }
}
