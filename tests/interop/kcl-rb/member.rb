# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# One process of kcl-rb 1.0.0, of the checkout KCL_RB, with the AWS calls of shim/. Its processor writes a checkpoint after
# each batch, and SHARD_END at TERMINATE.
#
#     member.rb WORKER STREAM TABLE DIARY [NAME=VALUE..]
#
# max_leases: max_lease_count. work_ms: time for a record. every: a checkpoint after so many records of a batch, too.
# checkpoint=no: none is written. The diary has a line for each event: seconds, what, details.
$LOAD_PATH.unshift File.join(__dir__, 'shim'), File.join(ENV.fetch('KCL_RB'), 'lib')
require 'kcl/version'
require 'kcl'
WORKER, STREAM, TABLE, DIARY = ARGV
SETTINGS = ARGV[4..].to_h { |setting| setting.split('=', 2) }
SEEN = File.open(DIARY, 'a')
SEEN.sync = true
WORK = SETTINGS.fetch('work_ms', '0').to_f / 1000
EVERY = SETTINGS['every']&.to_i
SAVES = SETTINGS['checkpoint'] != 'no'

def note(what, details) = SEEN.write("#{Time.now.to_f} #{what} #{details}\n")

Kcl.configure do |c|
  c.dynamodb_endpoint = ENV.fetch('AWS_ENDPOINT_URL_DYNAMODB')
  c.kinesis_endpoint = ENV.fetch('AWS_ENDPOINT_URL_KINESIS')
  c.dynamodb_table_name = TABLE
  c.kinesis_stream_name = STREAM
  c.dynamodb_failover_seconds = 10
  c.aws_region = 'us-east-1'
  c.aws_access_key_id = c.aws_secret_access_key = 'x'
  c.max_lease_count = SETTINGS.fetch('max_leases', '1').to_i
  c.logger = Kcl::Logger.new("#{DIARY}.log")
end

class Processor < Kcl::RecordProcessor
  def after_initialize(input)
    @shard = input.shard_id
  end

  def process_records(input)
    input.records.each_with_index do |record, at|
      sleep(WORK) if WORK.positive?
      note('record', "#{@shard} #{record.sequence_number} #{record.data}")
      input.record_checkpointer.update_checkpoint(record.sequence_number) if SAVES && EVERY && (at + 1) % EVERY == 0
    end
    input.record_checkpointer.update_checkpoint(input.records[-1].sequence_number) if SAVES && input.records.any?
  end

  def shutdown(input)
    input.record_checkpointer.update_checkpoint(nil) if input.shutdown_reason == Kcl::Workers::ShutdownReason::TERMINATE
  end
end

class Factory < Kcl::RecordProcessorFactory
  def create_processor = Processor.new
end

begin
  Kcl::Worker.run(WORKER, Factory.new)
  note('end', 'ok')
rescue Exception => e # rubocop:disable Lint/RescueException
  note('end', "#{e.class}: #{e.message.gsub("\n", ' ')}")
  raise
end
