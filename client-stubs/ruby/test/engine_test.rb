# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# The engine alone, with a clock of the test.
class EngineTest < TestCase
  Internal = KinesisSidecar::Internal

  def setup
    @items = []
    options = Internal::Options.new("orders")
    @engine = Internal::Engine.new(options, hand_out: @items.method(:<<), wake: -> {}, persist: ->(_) {})
    @decoder = Internal::Decoder.new
    receive(0.0, ScriptedServer::SESSION)
  end

  def receive(now, *messages)
    @engine.receive(@decoder, messages.map { |message| "#{JSON.generate(message)}\n" }.join.b, now)
  end

  # @param records [Array<Array<Integer>>] number and attempt of each record of the batch
  # @return [Array<KinesisSidecar::Record>] the records that the app gets
  def deliver(batch, *records, now:)
    receive(now, *records.map { |number, attempt| ScriptedServer.record(number, attempt: attempt, batch: batch) })
    @items.shift(@items.size).flatten.each(&:begin)
  end

  # @return [Array<String>] the ids that are extended
  def extended(now)
    request = @engine.request(now) or return []
    @engine.answered(request, { "failed" => [] })
    request.items.map { |item| item["ack_id"] || item["batch_id"] }
  end

  def test_redelivery_does_not_begin_max_processing_again
    deliver("b1", [1, 1], now: 0.0)
    assert_equal ["b1"], extended(3599.0)
    deliver("b2", [1, 2], now: 3599.0)
    deliver("b3", [1, 3], now: 3601.0)
    assert_empty extended(3700.0)
  end

  def test_record_whose_time_is_over_is_not_extended_with_its_batch
    deliver("b1", [1, 1], now: 0.0)
    deliver("b2", [1, 2], [2, 1], [3, 1], [4, 1], now: 3500.0)[3].drop
    @engine.answered(@engine.request(3500.0), { "failed" => [] })
    assert_equal ["b2"], extended(3590.0)
    deliver("b3", [3, 2], now: 3590.0)
    assert_equal %w[a2-1 b3], extended(3700.0)
  end
end
