# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # Another process opened a stream with the same client_id.
  class SessionTakenOver < Error
  end
end
