// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a method of a bean that handles records. The method has one parameter, a
 * {@link io.github.kinesissidecar.SidecarRecord}. A normal return acknowledges the record, and an exception retries it.
 *
 * <pre>{@code
 * @KinesisSidecarListener(clientId = "orders", concurrency = 16)
 * void on(SidecarRecord record) { ... }
 * }</pre>
 *
 * <p>The consumer begins after the application context, and ends before it. If the consumer fails, for example because
 * another process took its client id over, the error is logged, and {@link KinesisSidecarListeners#isHealthy} is false.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface KinesisSidecarListener {
    /** The client id of the consumer. Placeholders are resolved: {@code ${HOSTNAME}}. */
    String clientId();

    /** The number of handlers that run at the same time. */
    int concurrency() default 1;

    /** The name of the subscription, if the sidecar has several. Placeholders are resolved. */
    String subscription() default "";
}
