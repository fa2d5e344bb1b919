# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"

module KinesisSidecar
  module Internal
    # Reads members of the line of a record. To parse all members takes most of the CPU time of a record, so that they
    # are parsed when the app asks for them. A quote within a JSON text is escaped: `"name":` is always a member.
    module Line
      # Lines of records begin and end so. `Line.of` makes such lines of others.
      START = '{"type":"record","ack_id":"'
      FINISH = "}"
      DATA = ',"data":"'
      SEQUENCE_NUMBERS = /"sequence_number":"\d+","sub_sequence_number":\d+/n
      # The end of `"attempt":1,`. No other name ends so. MRI finds up to 8 bytes without a table of all bytes.
      FIRST = 'empt":1,'
      private_constant :DATA, :SEQUENCE_NUMBERS

      class << self
        # @param message [Hash] a record
        # @return [String] its line, with the members in the order of the sidecar
        def of(message)
          first = { "type" => "record", "ack_id" => message["ack_id"].to_s, "batch_id" => message["batch_id"].to_s }
          JSON.generate(first.merge(message)).b
        end

        # @return [String] the text that only the lines of the batch contain
        def mark(batch_id)
          "\",\"batch_id\":#{JSON.generate(batch_id)},".b
        end

        def ack_id(line)
          line.byteslice(START.bytesize...line.index('"', START.bytesize))
        end

        # @return [Integer] 0 if it is absent
        def lane(line)
          line[/"lane":(\d+)/n, 1].to_i
        end

        # @return [String] both sequence numbers, as in the lines of the sidecar
        def sequence_numbers(line)
          found = line[SEQUENCE_NUMBERS]
          return found if found

          members = head(line)
          numbers = [members["sequence_number"], members["sub_sequence_number"].to_i]
          format('"sequence_number":"%s","sub_sequence_number":%d', *numbers)
        end

        # @return [Boolean] false: this is the first delivery in its lease epoch
        def again?(line)
          !line.include?(FIRST)
        end

        # @return [String] the bytes of the app
        def data(line)
          at = line.index(DATA)
          return decode(parse(line).fetch("data", "")) unless at && data_last?(line, at)

          decode(line.byteslice(at + DATA.bytesize, line.bytesize - at - DATA.bytesize - 2))
        end

        # @return [Hash] the members; without `data` if it is the last one
        # @raise [JSON::ParserError]
        def head(line)
          at = line.index(DATA)
          parse(at && data_last?(line, at) ? line.byteslice(0, at) << "}" : line)
        end

        # @return [Object]
        # @raise [JSON::ParserError]
        def parse(line)
          JSON.parse(line.dup.force_encoding(Encoding::UTF_8))
        end

        private

        def decode(base64)
          base64.unpack1("m0")
        end

        def data_last?(line, at)
          line.index('"', at + DATA.bytesize) == line.bytesize - 2
        end
      end
    end
  end
end
