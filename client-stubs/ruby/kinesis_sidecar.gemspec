# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require_relative "lib/kinesis_sidecar/version"

Gem::Specification.new do |spec|
  spec.name = "kinesis-sidecar"
  spec.version = KinesisSidecar::VERSION
  spec.authors = ["The kinesis-sidecar authors"]
  spec.summary = "Consumer of Amazon Kinesis streams through kinesis-sidecar"
  spec.description = "Reads records of Amazon Kinesis streams from kinesis-sidecar, and acknowledges, retries or " \
                     "gives them up. The sidecar owns leases and checkpoints. No dependencies."
  spec.homepage = "https://github.com/kinesis-sidecar/kinesis-sidecar"
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.1"
  spec.metadata = { "rubygems_mfa_required" => "true" }
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.{rb,rake}", "sig/*.rbs", "README.md", "CHANGELOG.md", "LICENSE"] }
  spec.require_paths = ["lib"]
end
