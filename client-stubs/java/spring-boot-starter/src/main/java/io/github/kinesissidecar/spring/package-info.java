// SPDX-License-Identifier: Apache-2.0
/**
 * Spring Boot auto-configuration. Begin with {@link io.github.kinesissidecar.spring.KinesisSidecarListener}.
 */
package io.github.kinesissidecar.spring;
