# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# Lanes with an engine and a source that the test plays.
class LanesTest < TestCase
  Lanes = KinesisSidecar::Internal::Lanes
  Resolved = KinesisSidecar::Internal::Resolved
  FakeRecord = Struct.new(:name, :scope) do
    def begin
      true
    end
  end

  class Engine
    attr_accessor :held

    def held?(_)
      held
    end
  end

  # Gives the items of the test. `left` has an item for each record whose handler has returned.
  class Source
    attr_reader :items, :left

    def initialize
      @items = Thread::Queue.new
      @left = Thread::Queue.new
    end

    def take
      @items.pop
    end

    def hurry
      @left << true
    end

    def stopped?
      false
    end
  end

  def setup
    @engine = Engine.new
    @source = Source.new
    @handled = Thread::Queue.new
  end

  def in_lanes
    lanes = Lanes.new(@engine, @source, ->(record) { @handled << record.name }, 2)
    thread = Thread.new { lanes.run }
    yield
  ensure
    @source.items.close
    thread.join
  end

  def records(*names)
    names.map { |name| FakeRecord.new(name, "lane") }
  end

  def test_end_of_an_earlier_retry_does_not_resume_a_held_lane
    in_lanes do
      @engine.held = false
      @source.items << records("a")
      @source.left.pop
      @engine.held = true
      @source.items << records("b", "c") << Resolved.new("lane")
      wait_until("the items are taken") { @source.items.empty? && @source.items.num_waiting == 1 }
      assert_equal 1, @handled.size
      @engine.held = false
      @source.items << Resolved.new("lane")
      assert_equal %w[a b c], Array.new(3) { @handled.pop }
    end
  end

  def test_lane_without_records_is_forgotten
    in_lanes do
      @source.items << records("a") << records("b")
      2.times { @source.left.pop }
      @source.items << Resolved.new("lane") << records("c")
      assert_equal %w[a b c], Array.new(3) { @handled.pop }
    end
  end
end
