# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

namespace :kinesis_sidecar do
  desc "Call a class with each record until SIGTERM: kinesis_sidecar:consume[OrdersHandler,orders,4]"
  task :consume, %i[handler client_id concurrency] => :environment do |_, arguments|
    require "kinesis_sidecar/rails_handler"
    unless arguments[:handler] && arguments[:client_id]
      raise ArgumentError, "the task needs a handler and a client_id: kinesis_sidecar:consume[OrdersHandler,orders,4]"
    end

    handler = KinesisSidecar::RailsHandler.new(arguments[:handler])
    concurrency = Integer(arguments.fetch(:concurrency, 1))
    on_event = lambda do |event|
      level = %w[disconnected settle_failed].include?(event["type"]) ? :warn : :debug
      Rails.logger.public_send(level, "kinesis-sidecar: #{event.to_json}")
    end
    KinesisSidecar::Consumer.new(arguments[:client_id], on_event: on_event).run(handler, concurrency: concurrency)
  end
end
