# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/engine"
require "kinesis_sidecar/internal/flow"
require "kinesis_sidecar/internal/handler"
require "kinesis_sidecar/internal/inbox"
require "kinesis_sidecar/internal/lanes"
require "kinesis_sidecar/internal/options"
require "kinesis_sidecar/internal/persisted_ack"
require "kinesis_sidecar/internal/waker"
require "kinesis_sidecar/internal/worker"

module KinesisSidecar
  # Reads records from the sidecar, and settles them.
  #
  #   KinesisSidecar::Consumer.new("orders").run(concurrency: 4) do |record|
  #     Order.create!(record.json)
  #   end
  #
  # The block returns: the record is acknowledged. The block raises a StandardError: the record is retried. `break`,
  # `throw`, `return` and other exceptions leave the run; the record has no outcome then, and the sidecar redelivers
  # it at once.
  #
  # One thread at a time may read, and a consumer is used in one way only. Records may be settled in any thread.
  class Consumer
    # Yields a consumer and closes it after the block.
    # @return the value of the block
    def self.open(client_id, **options)
      consumer = new(client_id, **options)
      begin
        yield consumer
      ensure
        consumer.close
      end
    end

    # Connects to nothing: the first record that is asked for opens the stream. Durations are in seconds.
    #
    # @param client_id [String] 1 to 64 of A-Z a-z 0-9 . _ -
    # @param options [Hash]
    # @option options [String] :url (KINESIS_SIDECAR_URL or "http://127.0.0.1:8990") `http://HOST:PORT` or `unix:/PATH`
    # @option options [String] :token_file (KINESIS_SIDECAR_TOKEN_FILE) file with the bearer token
    # @option options [String] :subscription needed if the sidecar has several
    # @option options [Integer] :max_in_flight (1000) maximum records delivered and not settled
    # @option options [Integer] :max_in_flight_bytes (16 MiB) the same in bytes
    # @option options [Numeric] :ack_deadline (60) a record that is not settled and not extended by then is redelivered
    # @option options [Numeric] :max_processing (3600) how long the deadline of a record that the app has is extended
    # @option options [Numeric] :ack_interval (0.1) how long an acknowledgement waits for others
    # @option options [Symbol, String] :ordering (:shard; :key with a share or a concurrency above 1) :shard, :key or
    #   :none
    # @option options [Integer] :lanes (64 with a share or a concurrency above 1) lanes of a shard, with
    #   `ordering: :key`
    # @option options [Array<String>] :shards (all) shard ids to read
    # @option options [String] :share (none) part of the partition keys to read, a decimal like "0.05". Consumers
    #   without a share get all other keys; they must have the same ordering and lanes.
    # @option options [String] :salt which keys are in the share: another salt, other keys
    # @option options [String, Hash] :filter (none) pattern of the records to read, as JSON or a Hash. All other records
    #   count as settled. All open consumers of a subscription have the same filter.
    # @option options [#call] :on_event gets control events as hashes with "type", in the thread that reads
    # @raise [ArgumentError]
    def initialize(client_id, **options)
      @options = Internal::Options.new(client_id, **options)
      inbox = Internal::Inbox.new
      waker = Internal::Waker.new
      @engine = Internal::Engine.new(@options, hand_out: inbox.method(:put), wake: waker,
                                               persist: Internal::PersistedAck.new(@options))
      @worker = Internal::Worker.new(@options, @engine, inbox, waker)
      @flow = Internal::Flow.new(@engine, @worker)
      @with_loop = [] # Handed out last by a loop.
    end

    # @return [Integer] settlements whose session had ended: their records are redelivered
    def stale
      @engine.stale
    end

    # @return [Integer] settlements that the sidecar refused one by one
    def failed
      @engine.failed
    end

    # Handles records until `stop`, SIGTERM or SIGINT. Then waits for the running handlers and closes the consumer.
    #
    # @param handler [#call, nil] instead of the block
    # @param concurrency [Integer] how many handlers run at the same time, each in a thread; 1: in the thread of the
    # caller.
    #   The records of a partition key are handled one after the other.
    # @param signals [Boolean] whether to take SIGTERM and SIGINT during the run
    # @yieldparam record [Record]
    # @return the value of a `break`, or nil
    # @raise [SidecarError, SessionTakenOver]
    def run(handler = nil, concurrency: 1, signals: true, &block)
      callable = handler || block or raise ArgumentError, "run needs a handler or a block"
      signals ? with_signals { consume(callable, concurrency) } : consume(callable, concurrency)
    end

    # With a block: `run` without signals. Without a block: an Enumerator. Its `next` acknowledges the record before,
    # unless that record has an outcome already. A record without an outcome is handed out again by the next Enumerator,
    # and `close` gives it back.
    #
    # @yieldparam record [Record]
    # @return the value of a `break`, or nil; the Enumerator
    def each(concurrency: 1, &block)
      return consume(block, concurrency) if block
      raise ArgumentError, "an Enumerator has a concurrency of 1, got #{concurrency.inspect}" unless concurrency == 1

      enum_for(:each)
    end

    # Hands out batches, by the rules of `each`: the block returns, and the records without an outcome are
    # acknowledged; it raises a StandardError, and they are retried.
    #
    # @param max_records [Integer]
    # @param max_wait [Numeric] seconds from the first record of the batch on
    # @yieldparam batch [Batch]
    # @return the value of a `break`, or nil; the Enumerator
    def each_batch(max_records: 500, max_wait: 1.0, &block)
      return enum_for(:each_batch, max_records: max_records, max_wait: max_wait) unless block

      @options.order_for(1)
      handler = Internal::Handler.new(block)
      closing { hand_out_batches(max_records, max_wait) { |batch| handler.call(batch) } }
    end

    # Ends the run or the loop before the next record, from any thread, a handler or a signal handler.
    # @return [void]
    def stop
      @worker.stop
      nil
    end

    # Sends the outcomes, and ends the session: the sidecar redelivers the records without an outcome at once.
    # @return [void]
    def close
      @worker.close
      nil
    end

    private

    def consume(callable, concurrency)
      @options.order_for(concurrency)
      handler = Internal::Handler.new(callable)
      closing do
        next Internal::Lanes.new(@engine, @worker, handler, concurrency).run if concurrency > 1

        each_of_loop { |record| handler.call(@with_loop[0] = record) if record }
      end
    end

    # The records of a loop before it, which was left, come first.
    def each_of_loop(&block)
      @worker.start
      @flow.give_back(@with_loop)
      @with_loop = []
      @flow.each(&block)
    end

    def hand_out_batches(max_records, max_wait)
      records = []
      due = nil
      each_of_loop do |record|
        due ||= now + max_wait if record
        records << record if record
        unless records.size >= max_records || (!record && due && now >= due)
          # A tick that comes too early is the one of an earlier batch, and may have taken the place of this one's.
          @worker.tick_at(due) if due && (!record || records.size == 1)
          next
        end

        batch = Batch.new(records)
        @with_loop = records
        records = []
        due = nil
        yield batch
      end
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def closing
      yield
    ensure
      close
    end

    def with_signals
      before = %w[TERM INT].to_h { |name| [name, trap(name) { stop }] }
      yield
    ensure
      before&.each { |name, handler| trap(name, handler || "DEFAULT") }
    end
  end
end
