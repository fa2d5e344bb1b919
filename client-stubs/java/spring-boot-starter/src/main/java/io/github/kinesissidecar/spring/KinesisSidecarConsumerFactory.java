// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import io.github.kinesissidecar.Consumer;

/** Makes the consumer of a listener. A test replaces the bean, to give a listener records without a sidecar. */
@FunctionalInterface
public interface KinesisSidecarConsumerFactory {
    /** Makes a consumer of the options of the listener and of the properties. */
    Consumer create(Consumer.Builder builder, String clientId);
}
