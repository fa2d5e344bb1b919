// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * The properties of all listeners. A property that is not set has the default of the client.
 *
 * @param url the address of the sidecar; the default is the variable KINESIS_SIDECAR_URL, else http://127.0.0.1:8990
 * @param tokenFile the file with the bearer token; the default is the variable KINESIS_SIDECAR_TOKEN_FILE
 * @param maxInFlight the maximum of records that are delivered and not settled
 * @param ackDeadline the time after which a record that is neither settled nor extended is redelivered
 * @param maxProcessing the time for which the ack deadline of a record is extended
 */
@ConfigurationProperties("kinesis-sidecar")
public record KinesisSidecarProperties(String url, Path tokenFile, Integer maxInFlight, Duration ackDeadline,
        Duration maxProcessing) {
}
