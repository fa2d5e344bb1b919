// SPDX-License-Identifier: Apache-2.0
/** A consumer without a network, for tests of apps. */
package io.github.kinesissidecar.testing;
