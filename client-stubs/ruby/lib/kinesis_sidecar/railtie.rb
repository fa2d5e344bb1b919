# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # Adds the task `kinesis_sidecar:consume` to a Rails application.
  class Railtie < Rails::Railtie
    rake_tasks do
      load File.expand_path("../tasks/kinesis_sidecar.rake", __dir__)
    end
  end
end
