# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # The sidecar refused a request.
  class SidecarError < Error
    TEMPORARY = [429, 500, 502, 503, 504].freeze
    private_constant :TEMPORARY

    # @return [Integer] the HTTP status; 0: the package refused the call itself
    attr_reader :status
    # @return [String] the short reason of the sidecar
    attr_reader :code
    # @return [Hash] the error document of the sidecar
    attr_reader :problem
    # @return [Float, nil] seconds until the request may be repeated, if the sidecar names them
    attr_reader :retry_after

    def initialize(status, problem, retry_after = nil)
      sentence = problem["detail"] || problem["title"] || "refused"
      super(status.zero? ? sentence : "#{status} #{sentence}")
      @status = status
      @code = problem["code"].to_s
      @problem = problem
      @retry_after = retry_after
    end

    # @return [Boolean] whether the same request may succeed later
    def temporary?
      TEMPORARY.include?(status) || (status == 409 && problem["retryable"] == true)
    end
  end
end
