# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/caller"
require "kinesis_sidecar/internal/connection"
require "kinesis_sidecar/internal/decoder"
require "kinesis_sidecar/internal/response"

module KinesisSidecar
  module Internal
    # The thread that reads the stream and sends settlements.
    class Worker
      BACKOFF_FIRST_SECONDS = 0.1
      BACKOFF_MAX_SECONDS = 5.0
      SESSION_GONE = [409, 410].freeze

      def initialize(options, engine, inbox, waker)
        @options = options
        @engine = engine
        @inbox = inbox
        @waker = waker
        @caller = Caller.new(options)
        @pid = Process.pid
        @thread = nil
        @closing = false
        @attempts = 0 # Connections in a row that brought nothing.
      end

      # Opens the stream if it is not open.
      # @raise [SidecarError] if the consumer is closed, or was made in another process
      def start
        refuse("the consumer was made in another process: make one after the fork") if forked?
        refuse("the consumer is closed") if @closing
        @thread ||= Thread.new { serve }.tap { |thread| thread.name = "kinesis-sidecar #{@options.client_id}" }
      end

      # The next item for the app; see Inbox#take. Opens the stream if it is not open.
      def take
        start
        hurry
        @inbox.take
      end

      # The thread looks at acknowledgements every `ack_interval`. Credit does not wait for that.
      def hurry
        @waker.call if @engine.crowded?
      end

      def stop
        @inbox.stop
      end

      def stopped?
        @inbox.stopped?
      end

      # Has `take` return without a record at an instant.
      def tick_at(instant)
        @inbox.tick_at = instant
        @waker.call
      end

      # Sends what waits, ends the session, and ends the thread.
      def close
        @inbox.stop
        return if forked?

        @closing = true
        @waker.call
        @thread&.join
      end

      private

      def clock
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def forked?
        @pid != Process.pid
      end

      def refuse(sentence)
        raise SidecarError.new(0, { "detail" => sentence })
      end

      def serve
        connect_and_read until @closing
        finish
      rescue Exception => e # rubocop:disable Lint/RescueException -- the app's thread raises it.
        @inbox.fail(e)
        abandon
      ensure
        @caller.close
      end

      # --- The stream ---

      def connect_and_read
        connection = Connection.new(@options)
        read(connection)
      rescue *Connection::LOST => e
        pause = lost(e.message, 0.0)
      rescue SidecarError => e
        raise unless e.temporary?

        pause = lost(e.message, e.retry_after || 0.0)
      ensure
        connection&.close
        @engine.disconnected
        wait(pause) if pause
      end

      def read(connection)
        connection.send_request("GET", @options.stream_target, accept: Decoder::MEDIA_TYPE)
        response = Response.new
        decoder = Decoder.new
        heard = clock
        until @closing
          now = clock
          silence = heard + @engine.silence_max
          raise ProtocolError, "no heartbeat" if now >= silence

          if sleep_until([silence, @engine.outbox.next_at(now)].min, now, connection.io)
            heard = clock
            receive(connection, response, decoder, heard)
          end
          settle
        end
      end

      # Waits for bytes, a wake-up, a tick or the instant.
      # @return [Boolean] whether there are bytes to read
      def sleep_until(instant, now, io = nil)
        instant = [instant, @inbox.tick_at || instant].min
        ready, = IO.select([@waker.io, io].compact, nil, nil, [instant - now, 0].max)
        @waker.clear if ready&.include?(@waker.io)
        @inbox.tick(clock)
        !io.nil? && !ready.nil? && ready.include?(io)
      end

      def receive(connection, response, decoder, now)
        data = connection.read_available or return
        parts = response.feed(data)
        raise response.refusal(rest_of(connection, response, parts)) if response.status && response.status >= 400

        @attempts = 0 unless parts.empty?
        parts.each { |part| @engine.receive(decoder, part, now) }
        raise ProtocolError, "the sidecar ended the stream" if response.complete?
      end

      def rest_of(connection, response, parts)
        parts += response.feed(connection.read(Connection::CONNECT_SECONDS)) until response.complete?
        parts.join
      end

      # @return [Float] seconds until the next attempt
      def lost(reason, retry_after)
        pause = [BACKOFF_FIRST_SECONDS * 2**[@attempts, 10].min, BACKOFF_MAX_SECONDS].min * rand(0.5..1.0)
        pause = [pause, [retry_after, Outbox::RETRY_AFTER_MAX_SECONDS].min].max
        @attempts += 1
        @options.tell({ "type" => "disconnected", "reason" => reason, "retry_in_ms" => (pause * 1000).to_i })
        pause
      end

      # Settlements of the session that has lost its stream are still accepted.
      def wait(seconds)
        instant = clock + seconds
        until @closing || (now = clock) >= instant
          settle
          sleep_until([instant, now + @options.ack_interval].min, now)
        end
      end

      # --- Settling ---

      # Sends what is due.
      # @return [Boolean] false: the sidecar did not answer, so it is sent again
      def settle(everything: false)
        while @engine.session_open
          request = @engine.request(clock, everything: everything) or return true
          retry_after = send_settlements(request) or next

          @engine.unanswered(clock, retry_after)
          return false
        end
        true
      end

      # @return [Float, nil] seconds until the request may be sent again; nil: the sidecar has answered
      def send_settlements(request)
        answer = @caller.call("POST", @options.settle_target, body: request.body)
        @engine.answered(request, answer)
        nil
      rescue *Connection::LOST
        0.0
      rescue SidecarError => e
        return e.retry_after || 0.0 if e.temporary? && e.status != 409
        raise unless SESSION_GONE.include?(e.status)

        @engine.refused(request)
        nil
      end

      # An error ends the consumer: acknowledgements are still sent.
      def abandon
        @engine.outbox.abandon
        settle(everything: true)
      rescue StandardError
        nil # The app gets the first error.
      end

      # Nothing is left to be sent to a sidecar that is away: it redelivers the records.
      def finish
        return unless @engine.session_open && settle(everything: true)

        @caller.call("DELETE", @options.session_target)
      rescue SidecarError, *Connection::LOST
        nil
      end
    end
  end
end
