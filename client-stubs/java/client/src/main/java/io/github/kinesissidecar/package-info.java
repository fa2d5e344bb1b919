// SPDX-License-Identifier: Apache-2.0
/** Client of kinesis-sidecar. Begin with {@link io.github.kinesissidecar.Consumer}. */
package io.github.kinesissidecar;
