// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import io.github.kinesissidecar.Consumer;
import io.github.kinesissidecar.SidecarRecord;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.context.EnvironmentAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.env.Environment;
import org.springframework.util.ReflectionUtils;

/** Finds the listeners of all beans, and runs a consumer for each of them while the application context runs. */
public class KinesisSidecarListeners implements BeanPostProcessor, SmartLifecycle, EnvironmentAware {
    private static final Log LOG = LogFactory.getLog(KinesisSidecarListeners.class);

    private record Listener(Object bean, Method method, KinesisSidecarListener options) { }

    private final List<Listener> listeners = new ArrayList<>();
    private final Map<Consumer, Thread> running = new LinkedHashMap<>();
    private final Supplier<KinesisSidecarProperties> properties;
    private final Supplier<KinesisSidecarConsumerFactory> factory;
    private Environment environment;
    private volatile boolean started;

    /**
     * Makes the processor. Both arguments are asked for at the start, because a bean post-processor exists before them.
     */
    public KinesisSidecarListeners(Supplier<KinesisSidecarProperties> properties,
            Supplier<KinesisSidecarConsumerFactory> factory) {
        this.properties = properties;
        this.factory = factory;
    }

    @Override
    public void setEnvironment(Environment environment) {
        this.environment = environment;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String beanName) {
        Class<?> type = AopUtils.getTargetClass(bean);
        Map<Method, KinesisSidecarListener> methods = MethodIntrospector.selectMethods(type,
                (MethodIntrospector.MetadataLookup<KinesisSidecarListener>) method ->
                        AnnotatedElementUtils.findMergedAnnotation(method, KinesisSidecarListener.class));
        methods.forEach((method, options) -> add(bean, method, options));
        return bean;
    }

    private void add(Object bean, Method method, KinesisSidecarListener options) {
        if (method.getParameterCount() != 1 || method.getParameterTypes()[0] != SidecarRecord.class)
            throw new IllegalStateException(
                    "a @KinesisSidecarListener method must have one parameter of the type SidecarRecord, got "
                            + method);
        Method callable = AopUtils.selectInvocableMethod(method, bean.getClass());
        ReflectionUtils.makeAccessible(callable);
        synchronized (this) {
            listeners.add(new Listener(bean, callable, options));
        }
    }

    /** Starts a thread for each listener. */
    @Override
    public synchronized void start() {
        started = true;
        for (Listener listener : listeners) {
            Consumer consumer = build(listener.options);
            Thread thread = new Thread(() -> run(consumer, listener), "kinesis-sidecar-" + listener.method.getName());
            running.put(consumer, thread);
            thread.start();
        }
    }

    /** Stops all consumers and waits for their handlers. */
    @Override
    public synchronized void stop() {
        started = false;
        running.keySet().forEach(Consumer::stop);
        running.keySet().forEach(Consumer::close);
        running.clear();
    }

    /** Returns whether the consumers were started and not stopped. */
    @Override
    public boolean isRunning() {
        return started;
    }

    /** Returns whether no consumer has ended by a failure. */
    public synchronized boolean isHealthy() {
        return running.values().stream().allMatch(Thread::isAlive);
    }

    private Consumer build(KinesisSidecarListener options) {
        String clientId = environment.resolveRequiredPlaceholders(options.clientId());
        Consumer.Builder builder = Consumer.builder(clientId).concurrency(options.concurrency())
                .subscription(environment.resolveRequiredPlaceholders(options.subscription())).shutdownHook(false);
        KinesisSidecarProperties all = properties.get();
        if (all.url() != null)
            builder.url(all.url());
        if (all.tokenFile() != null)
            builder.tokenFile(all.tokenFile());
        if (all.maxInFlight() != null)
            builder.maxInFlight(all.maxInFlight());
        if (all.ackDeadline() != null)
            builder.ackDeadline(all.ackDeadline());
        if (all.maxProcessing() != null)
            builder.maxProcessing(all.maxProcessing());
        return factory.get().create(builder, clientId);
    }

    private void run(Consumer consumer, Listener listener) {
        try {
            consumer.run(record -> handle(listener, record));
        } catch (RuntimeException failure) {
            if (!started)
                return;
            LOG.error("kinesis-sidecar listener " + listener.method + ": stopped (" + failure.getMessage()
                    + "); restart the application to read again", failure);
        }
    }

    private static void handle(Listener listener, SidecarRecord record) throws Exception {
        try {
            listener.method.invoke(listener.bean, record);
        } catch (InvocationTargetException failure) {
            if (failure.getCause() instanceof Exception cause)
                throw cause;
            throw failure;
        }
    }
}
