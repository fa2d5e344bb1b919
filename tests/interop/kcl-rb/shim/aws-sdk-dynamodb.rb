# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
require_relative 'aws_shim'
