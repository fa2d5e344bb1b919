# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"
require "active_record"
require "sqlite3"

# Once with a connection of each kind. The subclasses have the connection.
module OnceTests
  Once = KinesisSidecar::Once

  def setup
    Once.create_table(connection)
    Once.create_table(connection)
    connection.execute("CREATE TABLE orders (id INTEGER)")
  end

  def record(value, **members)
    KinesisSidecar::Testing.record(value, sequence_number: "100", **members)
  end

  def apply(record)
    Once.apply(connection, "orders", record) { connection.execute("INSERT INTO orders VALUES (#{record.json})") }
  end

  def orders
    connection.execute("SELECT id FROM orders ORDER BY id").map { |row| row.is_a?(Hash) ? row["id"] : row[0] }
  end

  def test_redelivery_has_no_effect
    assert_equal true, apply(record(7))
    assert_equal false, apply(record(7, attempt: 2, epoch: 2))
    assert_equal [7], orders
  end

  def test_records_of_an_aggregate_are_told_apart
    [0, 1].each { |number| assert apply(record(number, sub_sequence_number: number)) }
    assert_equal [0, 1], orders
  end

  def test_consumers_are_told_apart
    assert apply(record(7))
    assert(Once.apply(connection, "o'ther", record(7)) { nil })
    refute(Once.apply(connection, "o'ther", record(7)) { flunk })
  end

  def test_failed_effect_leaves_no_position
    assert_raises(RuntimeError) do
      Once.apply(connection, "orders", record(7)) do
        connection.execute("INSERT INTO orders VALUES (7)")
        raise "odd"
      end
    end
    assert_empty orders
    assert apply(record(7))
  end

  def test_old_positions_are_forgotten
    apply(record(7))
    assert_equal 0, Once.forget_before(connection, "orders", Time.now - 86_400)
    assert_equal 1, Once.forget_before(connection, "orders", Time.now + 86_400)
    assert apply(record(8))
  end
end

class OnceSqliteTest < TestCase
  include OnceTests

  def connection
    @connection ||= SQLite3::Database.new(":memory:")
  end
end

class OnceActiveRecordTest < TestCase
  include OnceTests

  def connection
    @connection ||= ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:").connection
  end

  def teardown
    ActiveRecord::Base.remove_connection
  end
end

# The calls that PG::Connection gets, on SQLite: it knows $1 as well.
class OncePostgresTest < TestCase
  include OnceTests

  Result = Struct.new(:cmd_tuples)

  class Connection
    def initialize
      @database = SQLite3::Database.new(":memory:")
    end

    def transaction(&block)
      @database.transaction(&block)
    end

    def exec_params(sql, values)
      raise ArgumentError, sql if sql.include?("?")

      @database.execute(sql, values)
      Result.new(@database.changes)
    end

    def execute(sql)
      @database.execute(sql)
    end
  end

  def connection
    @connection ||= Connection.new
  end
end
