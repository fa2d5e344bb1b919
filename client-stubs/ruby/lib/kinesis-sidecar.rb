# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# Bundler requires a gem by its name.
require "kinesis_sidecar"
