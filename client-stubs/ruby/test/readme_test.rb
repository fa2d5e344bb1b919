# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "sqlite3"

# The Ruby examples of README.md, in their order, with a consumer that has one record.
class ReadmeTest < TestCase
  README = File.expand_path("../README.md", __dir__)
  EXAMPLES = File.read(README).scan(/^```ruby\n(.*?)^```$/m).flatten.freeze
  Order = Struct.new(:id) do
    def self.create!(values)
      made << values
    end

    def self.made
      @made ||= []
    end
  end

  def setup
    Order.made.clear
    @db = SQLite3::Database.new(":memory:")
    @db.execute("CREATE TABLE orders (id INTEGER)")
  end

  def handle(record)
    Order.create!(record.json)
  end

  # Runs the only example that contains the text. Returns the outcomes of its consumer.
  def run_example(text)
    found = EXAMPLES.select { |example| example.include?(text) }
    assert_equal 1, found.size, text
    consumer = KinesisSidecar::Testing::FakeConsumer.new([KinesisSidecar::Testing.record({ "id" => 7 })])
    db = @db
    assert_same @db, db
    KinesisSidecar::Consumer.stub(:new, consumer) { binding.eval(found.first, README) }
    consumer.outcomes.map(&:outcome)
  end

  def test_examples_are_all_run
    assert_equal 5, EXAMPLES.size
  end

  def test_run
    assert_equal [:ack], run_example(".run(concurrency: 4)")
    assert_equal [{ "id" => 7 }], Order.made
  end

  def test_enumerator
    run_example("records = consumer.each")
    assert_equal [{ "id" => 7 }], Order.made
  end

  def test_once
    assert_equal [:ack], run_example("Once.apply")
    assert_equal [[7]], @db.execute("SELECT id FROM orders")
  end

  def test_handler_and_fake_consumer
    run_example("class OrdersHandler")
    run_example("FakeConsumer.new")
    assert_equal [{ "id" => 1 }], Order.made
  ensure
    self.class.send(:remove_const, :OrdersHandler) if self.class.const_defined?(:OrdersHandler, false)
  end
end
