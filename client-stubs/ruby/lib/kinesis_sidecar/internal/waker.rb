# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # Wakes the thread that reads.
    class Waker
      # The end of the pipe that the thread waits for.
      attr_reader :io

      def initialize
        @io, @writer = IO.pipe
        @woken = false
      end

      def call
        return if @woken

        @woken = true
        @writer.write_nonblock("!", exception: false)
      end

      # To be called before the thread looks for its work: a later call wakes it again.
      def clear
        @io.read_nonblock(4096, exception: false)
        @woken = false
      end
    end
  end
end
