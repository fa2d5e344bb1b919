# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # Calls a class of a Rails application with each record, inside the reloader of the application: Active Record
  # returns its connections after each record, and a changed class is loaded again in development.
  class RailsHandler
    # @param class_name [String] a class that has `call(record)`, or whose instances have it
    # @raise [ArgumentError] if there is no such class
    def initialize(class_name, application = Rails.application)
      @class_name = class_name
      @application = application
      handler
    end

    # @param record [Record]
    def call(record)
      @application.reloader.wrap { handler.call(record) }
    end

    private

    def handler
      found = @class_name.safe_constantize
      return found if found.respond_to?(:call)
      return found.new if found.is_a?(Class) && found.method_defined?(:call)

      raise ArgumentError, "the handler must be a class with call(record), got #{@class_name}"
    end
  end
end
