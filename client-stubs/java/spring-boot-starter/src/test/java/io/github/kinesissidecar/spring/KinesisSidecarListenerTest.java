// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.kinesissidecar.SidecarRecord;
import io.github.kinesissidecar.testing.FakeConsumer;
import io.github.kinesissidecar.testing.FakeRecord;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

@Timeout(60)
class KinesisSidecarListenerTest {
    private final ApplicationContextRunner context = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(KinesisSidecarAutoConfiguration.class));

    static class Orders {
        final List<String> keys = new CopyOnWriteArrayList<>();

        @KinesisSidecarListener(clientId = "orders-${pod}", concurrency = 16)
        void on(SidecarRecord record) {
            keys.add(record.partitionKey());
            if (record.partitionKey().equals("bad"))
                throw new IllegalStateException("no such customer");
        }
    }

    static class Wrong {
        @KinesisSidecarListener(clientId = "wrong")
        void on(String data) {
        }
    }

    @Configuration
    static class Fakes {
        @Bean
        FakeConsumer fakeConsumer() {
            FakeConsumer consumer = new FakeConsumer();
            consumer.add("good", "{}");
            consumer.add("bad", "{}");
            return consumer;
        }

        @Bean
        KinesisSidecarConsumerFactory factory(FakeConsumer consumer) {
            return (builder, clientId) -> {
                assertThat(clientId).isEqualTo("orders-7");
                return consumer;
            };
        }
    }

    @Test
    void listener_getsTheRecords_andItsExceptionRetries() {
        context.withUserConfiguration(Fakes.class).withBean(Orders.class).withPropertyValues("pod=7").run(started -> {
            List<FakeRecord> records = started.getBean(FakeConsumer.class).records();
            while (records.get(1).outcome().isEmpty())
                Thread.sleep(10);
            assertThat(started.getBean(Orders.class).keys).containsExactly("good", "bad");
            assertThat(records.get(0).outcome()).isEqualTo("ack");
            assertThat(records.get(1).outcome()).isEqualTo("retry");
            assertThat(records.get(1).reason()).isEqualTo("no such customer");
        });
    }

    @Test
    void listener_withoutASidecar_startsAndStops() {
        context.withBean(Orders.class).withPropertyValues("pod=7", "kinesis-sidecar.url=http://127.0.0.1:1",
                "kinesis-sidecar.ack-deadline=30s").run(started -> {
            KinesisSidecarListeners listeners = started.getBean(KinesisSidecarListeners.class);
            assertThat(listeners.isRunning()).isTrue();
            assertThat(listeners.isHealthy()).isTrue();
            listeners.stop();
            assertThat(listeners.isRunning()).isFalse();
        });
    }

    @Test
    void listener_withAnotherParameter_isRefused() {
        context.withBean(Wrong.class).run(started -> assertThat(started).getFailure().rootCause()
                .hasMessageContaining("one parameter of the type SidecarRecord"));
    }

    @Test
    void properties_areDescribedForEditors() throws IOException {
        try (InputStream metadata = getClass().getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            assertThat(new String(metadata.readAllBytes(), StandardCharsets.UTF_8)).contains("\"kinesis-sidecar.url\"",
                    "\"kinesis-sidecar.max-processing\"", "the file with the bearer token");
        }
    }
}
