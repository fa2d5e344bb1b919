# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # No retry holds the scope any more: records that were set aside may be handed out.
    Resolved = Struct.new(:scope)
  end
end
