# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# Consumers of kinesis-sidecar. KinesisSidecar::Consumer is the one that apps use.
module KinesisSidecar
  # The parts of a consumer. Apps do not use them.
  module Internal
  end
end

require "kinesis_sidecar/version"
require "kinesis_sidecar/error"
require "kinesis_sidecar/sidecar_error"
require "kinesis_sidecar/session_taken_over"
require "kinesis_sidecar/record"
require "kinesis_sidecar/batch"
require "kinesis_sidecar/consumer"
require "kinesis_sidecar/railtie" if defined?(Rails::Railtie)

module KinesisSidecar
  autoload :Once, "kinesis_sidecar/once"
  autoload :Testing, "kinesis_sidecar/testing"
end
