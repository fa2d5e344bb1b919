// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names what `make h2spec` builds, so that go.mod and go.sum pin it.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
