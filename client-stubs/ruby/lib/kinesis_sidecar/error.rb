# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # The base of the errors of this package.
  class Error < StandardError
  end
end
