// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import io.github.kinesissidecar.Consumer;

/** Makes the consumer of a listener. A test replaces the bean, to give a listener records without a sidecar. */
@FunctionalInterface
public interface KinesisSidecarConsumerFactory {
    /**
     * Makes a consumer.
     *
     * @param builder the options of the listener and of the properties
     * @param clientId the client id of the listener
     * @return the consumer
     */
    Consumer create(Consumer.Builder builder, String clientId);
}
