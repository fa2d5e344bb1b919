# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # Effects at most once per record, in a database of the app: SQLite 3.24, PostgreSQL 9.5, or later ones.
  #
  #   KinesisSidecar::Once.create_table(connection)
  #   consumer.run do |record|
  #     KinesisSidecar::Once.apply(connection, "orders", record) { insert_order(connection, record.json) }
  #   end
  #
  # The sidecar delivers at least once. `apply` stores the position of the record in the transaction of its effect: a
  # redelivery finds it there and has no effect. Any ordering and concurrency will do, with a connection for each
  # handler. The connection is a SQLite3::Database, a PG::Connection, or a connection of Active Record to one of these
  # databases.
  module Once
    TABLE = "kinesis_sidecar_applied"

    CREATE = <<~SQL
      CREATE TABLE IF NOT EXISTS #{TABLE} (consumer TEXT NOT NULL, stream TEXT NOT NULL, shard_id TEXT NOT NULL,
        sequence_number TEXT NOT NULL, sub_sequence_number BIGINT NOT NULL, epoch BIGINT NOT NULL,
        applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        PRIMARY KEY (consumer, stream, shard_id, sequence_number, sub_sequence_number))
    SQL
    INSERT = "INSERT INTO #{TABLE} (consumer, stream, shard_id, sequence_number, sub_sequence_number, epoch) " \
             "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    DELETE = "DELETE FROM #{TABLE} WHERE consumer = ? AND applied_at < ?"
    private_constant :CREATE, :INSERT, :DELETE

    class << self
      # Creates the table of positions if it does not exist.
      # @return [void]
      def create_table(connection)
        change(connection, CREATE)
        nil
      end

      # Yields and commits, or does nothing if the record was applied before. Rolls back if the block raises.
      # @return [Boolean] whether it has yielded
      def apply(connection, consumer, record)
        is_new = nil
        connection.transaction do
          position = [consumer, record.stream, record.shard_id, record.sequence_number, record.sub_sequence_number,
                      record.epoch]
          is_new = change(connection, INSERT, position) == 1
          yield if is_new
        end
        is_new
      end

      # Removes positions that were stored before the instant. Records that can be redelivered must be younger: the
      # retention period of the stream is a safe age.
      # @param instant [Time]
      # @return [Integer] how many
      def forget_before(connection, consumer, instant)
        change(connection, DELETE, [consumer, instant.getutc.strftime("%Y-%m-%d %H:%M:%S")])
      end

      private

      # @return [Integer] the number of rows that have changed
      def change(connection, sql, values = [])
        if connection.respond_to?(:exec_params)
          connection.exec_params(numbered(sql), values).cmd_tuples
        elsif connection.respond_to?(:quote)
          connection.update(quoted(connection, sql, values))
        else
          connection.execute(sql, values)
          connection.changes
        end
      end

      # The placeholders of PostgreSQL are $1, $2 ..
      def numbered(sql)
        number = 0
        sql.gsub("?") { "$#{number += 1}" }
      end

      def quoted(connection, sql, values)
        left = values.dup
        sql.gsub("?") { connection.quote(left.shift) }
      end
    end
  end
end
