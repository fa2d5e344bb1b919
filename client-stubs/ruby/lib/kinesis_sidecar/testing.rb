# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "kinesis_sidecar"

module KinesisSidecar
  # Consumers without a sidecar, for the tests of an app.
  #
  #   consumer = KinesisSidecar::Testing::FakeConsumer.new([KinesisSidecar::Testing.record({ "id" => 1 })])
  #   consumer.run { |record| handle(record) }
  #   assert_equal [:ack], consumer.outcomes.map(&:outcome)
  module Testing
    autoload :FakeConsumer, "kinesis_sidecar/testing/fake_consumer"
    autoload :FakeRecord, "kinesis_sidecar/testing/fake_record"

    # A record, its outcome as a symbol, and the reason.
    Outcome = Struct.new(:record, :outcome, :reason)

    @last_number = 0

    # A record for a FakeConsumer.
    # @param data [String, Object] the bytes, or a value that becomes JSON
    # @param members [Hash] members of a line of the stream, such as `partition_key: "key"` and `attempt: 2`
    # @return [Record]
    def self.record(data, **members)
      number = (@last_number += 1).to_s
      content = data.is_a?(String) ? data : JSON.generate(data)
      message = { "ack_id" => "fake-#{number}", "batch_id" => "fake", "stream" => "fake",
                  "shard_id" => "shardId-000000000000", "epoch" => 1, "sequence_number" => number,
                  "sub_sequence_number" => 0, "partition_key" => "key",
                  "approximate_arrival_timestamp" => "2026-01-01T00:00:00.000Z", "attempt" => 1,
                  "data" => [content].pack("m0"), **members.transform_keys(&:to_s) }
      FakeRecord.new(message)
    end
  end
end
