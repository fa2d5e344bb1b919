// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/** Runs the methods that {@link KinesisSidecarListener} marks. */
@AutoConfiguration
@EnableConfigurationProperties(KinesisSidecarProperties.class)
public class KinesisSidecarAutoConfiguration {
    /** Makes the configuration. */
    public KinesisSidecarAutoConfiguration() {
    }

    @Bean
    @ConditionalOnMissingBean
    static KinesisSidecarListeners kinesisSidecarListeners(ObjectProvider<KinesisSidecarProperties> properties,
            ObjectProvider<KinesisSidecarConsumerFactory> factory) {
        return new KinesisSidecarListeners(properties::getObject, factory::getObject);
    }

    @Bean
    @ConditionalOnMissingBean
    static KinesisSidecarConsumerFactory kinesisSidecarConsumerFactory() {
        return (builder, clientId) -> builder.build();
    }
}
