# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # A line of a record in the usual form of the sidecar. Its members are cut out of the line when they are asked for, because to
    # parse all of them takes most of the CPU time of a record. A line of another form (escapes, further members) has to be parsed
    # as JSON.
    #
    # The first line of a batch is matched as a whole. The next lines of the batch have the same text between ack_id and sequence
    # number: to compare it and to match the rest costs less.
    class Line
      START = '{"type":"record","ack_id":"'
      TAIL = /(?<sequence_number>\d+)","sub_sequence_number":(?<sub_sequence_number>\d+),"partition_key":"(?<partition_key>[^"\\]*)",
        "approximate_arrival_timestamp":"(?<approximate_arrival_timestamp>[^"\\]*)","attempt":(?<attempt>\d+),
        (?:"lane":(?<lane>\d+),)?"data":"/nx
      HEAD = /\A\{"type":"record","ack_id":"(?<ack_id>[^"]+)","batch_id":"(?<batch_id>[\w-]+)","stream":"(?<stream>[^"\\]*)",
        "shard_id":"(?<shard_id>[\w-]+)","epoch":(?<epoch>\d+),"sequence_number":"#{TAIL}/nx
      NAMES = HEAD.names.freeze
      TAIL_HERE = /\G#{TAIL}/nx

      # @param line [String] binary
      # @return [Line, nil] nil: the line has another form
      def self.of(line)
        head = HEAD.match(line)
        data_at = data_at(line) if head
        new(line, data_at, head["batch_id"], head) if data_at
      end

      # @return [Integer, nil] the index of the content of the last member; nil: the last member is not the data
      def self.data_at(line)
        quote = line.rindex('"', -3)
        quote + 1 if line.end_with?('"}') && line.byteslice(quote - 7, 7) == '"data":'
      end

      def initialize(line, data_at, batch_id, head = nil)
        @line = line
        @data_at = data_at
        @batch_id = batch_id
        @head = head
      end

      # @param line [String] binary
      # @return [Line, nil] the line as a next one of the batch that this line begins; nil: it has to be matched as a whole
      def followed_by(line)
        return unless line.start_with?(START)

        ack_id_end = line.index('"', START.bytesize)
        return unless ack_id_end && line.index(mark, ack_id_end) == ack_id_end
        return unless line.match?(TAIL_HERE, ack_id_end + mark.bytesize)

        data_at = Line.data_at(line)
        Line.new(line, data_at, @batch_id) if data_at
      end

      # @return [String, nil] the member; numbers are text
      def [](name)
        case name
        when "batch_id" then @batch_id
        when "data" then @line.byteslice(@data_at, @line.bytesize - @data_at - 2)
        else member(name)
        end
      end

      private

      # A line in the usual form has no other members.
      def member(name)
        @head ||= HEAD.match(@line)
        @head[name]&.force_encoding(Encoding::UTF_8) if NAMES.include?(name)
      end

      # The text between ack_id and sequence number.
      def mark
        @mark ||= @line.byteslice(@head.end("ack_id")...@head.begin("sequence_number"))
      end
    end
  end
end
