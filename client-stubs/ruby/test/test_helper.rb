# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "net/http"
require "socket"
require "tmpdir"
require "kinesis_sidecar"
require "kinesis_sidecar/testing"
require_relative "real_sidecar"
require_relative "scripted_server"

Thread.abort_on_exception = true

module Waiting
  PATIENCE = 30.0 # Seconds, for what hangs.

  def self.now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # @return the value of the block as soon as it is true
  def self.until(fact)
    limit = now + PATIENCE
    until (value = yield)
      raise Minitest::Assertion, "not in time: #{fact}" if now > limit

      sleep 0.01
    end
    value
  end

  def wait_until(fact, &block)
    Waiting.until(fact, &block)
  end
end

class TestCase < Minitest::Test
  include Waiting

  LIMIT = 60 # Seconds for one test.

  # A test that hangs fails. If its threads do not end then, the suite ends.
  def run
    test = Thread.current
    watch = Thread.new do
      sleep LIMIT
      test.raise(Minitest::Assertion, "not in #{LIMIT} s")
      sleep LIMIT
      warn "#{location} hangs"
      exit!(1)
    end
    super
  ensure
    watch.kill
  end

  # `run` in a thread, as a handle that stops it.
  def running(consumer, concurrency: 1, **options, &handler)
    Thread.new { consumer.run(concurrency: concurrency, signals: false, **options, &handler) }
  end

  # Consumes while the block runs, and stops then.
  def consuming(consumer, handler, concurrency: 1)
    thread = running(consumer, concurrency: concurrency, &handler)
    yield
  ensure
    consumer.stop
    thread.join
  end

  # @return [Array<KinesisSidecar::Record>] the next records; the last one has no outcome
  def take(consumer, count)
    records = consumer.each
    Array.new(count) { records.next }
  end

  def numbers(records)
    records.map { |record| record.sequence_number.to_i }
  end
end

# A consumer and a server that the test scripts.
class ScriptedTestCase < TestCase
  SESSION = ScriptedServer::SESSION

  def setup
    @server = ScriptedServer.new
    @events = []
  end

  def teardown
    @consumer&.close
    @server.close
  end

  def consumer(**options)
    @consumer ||= KinesisSidecar::Consumer.new("orders", url: @server.url, on_event: @events.method(:<<), **options)
  end

  def record(...)
    ScriptedServer.record(...)
  end

  def refusal(...)
    ScriptedServer.refusal(...)
  end

  def event_types
    @events.map { |event| event["type"] }
  end

  # @return [Array<Array<Integer>>] number and attempt of each record
  def attempts(records)
    records.map { |record| [record.sequence_number.to_i, record.attempt] }
  end

  # @return [Array<Array<Integer>>] number and attempt of the next records
  def handed_out(records, count)
    attempts(Array.new(count) { records.next })
  end
end
