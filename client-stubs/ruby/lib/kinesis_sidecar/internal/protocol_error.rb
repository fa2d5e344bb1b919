# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The connection cannot be used any more: the peer sent something else than the protocol allows, or nothing.
    class ProtocolError < Error
    end
  end
end
