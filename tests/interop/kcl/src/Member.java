// SPDX-License-Identifier: Apache-2.0
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.http.Protocol;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * A member by KCL: it checkpoints after each batch. See ../../fleet.py.
 *
 * position is TRIM_HORIZON, LATEST or AT_TIMESTAMP (of 1970); prepare_ms prepares a checkpoint so long before it is made;
 * hurry lets migrations run so many times as fast.
 * A setting that is none of ours is a setting of KCL: NAME=VALUE calls NAME(VALUE) of the config that has it.
 */
public final class Member {
    private Member() {}

    public static void main(String[] args) throws Exception {
        Diary diary = new Diary(args[0]);
        Map<String, String> settings = new HashMap<>();
        for (int at = 3; at < args.length; at++) {
            String[] pair = args[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        int hurry = Integer.parseInt(taken(settings, "hurry", "1"));
        Scheduler scheduler = scheduler(diary, args[1], args[2], settings);
        if (hurry != 1) {
            Hurry.up(scheduler, hurry);
        }
        Thread running = new Thread(scheduler, "scheduler");
        running.start();
        diary.tell("started");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(scheduler, diary)));
        running.join();
    }

    private static void stop(Scheduler scheduler, Diary diary) {
        try {
            scheduler.startGracefulShutdown().get(30, TimeUnit.SECONDS);
            diary.tell("stopped");
        } catch (Exception err) {
            err.printStackTrace();
        }
        System.out.flush();
    }

    private static Scheduler scheduler(Diary diary, String stream, String application, Map<String, String> settings)
            throws Exception {
        KinesisAsyncClient kinesis = KinesisAsyncClient.builder().region(Region.US_EAST_1)
                .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL_KINESIS")))
                .httpClientBuilder(NettyNioAsyncHttpClient.builder().protocol(Protocol.HTTP1_1)).build();
        DynamoDbAsyncClient dynamo = DynamoDbAsyncClient.builder().region(Region.US_EAST_1)
                .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL_DYNAMODB"))).build();
        CloudWatchAsyncClient watch = CloudWatchAsyncClient.builder().region(Region.US_EAST_1)
                .endpointOverride(URI.create("http://127.0.0.1:1")).build();
        int work = Integer.parseInt(taken(settings, "work_us", "0"));
        int prepare = Integer.parseInt(taken(settings, "prepare_ms", "0"));
        InitialPositionInStreamExtended position = position(taken(settings, "position", "TRIM_HORIZON"));
        SingleStreamTracker tracker = new SingleStreamTracker(stream, position);
        ConfigsBuilder configs = new ConfigsBuilder(tracker, application, kinesis, dynamo, watch, diary.worker,
                () -> new Processor(diary, work, prepare));
        PollingConfig polling = new PollingConfig(stream, kinesis);
        List<Object> all = new ArrayList<>(List.of(polling, configs.leaseManagementConfig(), configs.coordinatorConfig(),
                configs.lifecycleConfig(), configs.processorConfig()));
        addOwnConfigs(all);
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            set(all, setting.getKey(), setting.getValue());
        }
        var leases = (software.amazon.kinesis.leases.LeaseManagementConfig) all.get(1);
        leases.initialPositionInStream(position);
        return new Scheduler(configs.checkpointConfig(),
                (software.amazon.kinesis.coordinator.CoordinatorConfig) all.get(2), leases,
                (software.amazon.kinesis.lifecycle.LifecycleConfig) all.get(3),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                (software.amazon.kinesis.processor.ProcessorConfig) all.get(4),
                configs.retrievalConfig().retrievalSpecificConfig(polling));
    }

    private static String taken(Map<String, String> settings, String name, String otherwise) {
        String value = settings.remove(name);
        return value == null ? otherwise : value;
    }

    private static InitialPositionInStreamExtended position(String name) {
        if (name.equals("AT_TIMESTAMP")) {
            return InitialPositionInStreamExtended.newInitialPositionAtTimestamp(new Date(0));
        }
        return InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.valueOf(name));
    }

    /** What a config holds in a config of its own, in the versions that do. */
    private static void addOwnConfigs(List<Object> all) throws Exception {
        for (Object config : List.copyOf(all)) {
            for (String name : List.of("workerUtilizationAwareAssignmentConfig", "gracefulLeaseHandoffConfig",
                    "leaseCleanupConfig")) {
                try {
                    all.add(config.getClass().getMethod(name).invoke(config));
                } catch (NoSuchMethodException err) {
                    continue;
                }
            }
        }
    }

    private static void set(List<Object> configs, String name, String value) throws Exception {
        for (Object config : configs) {
            for (Method method : config.getClass().getMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == 1) {
                    method.invoke(config, read(method.getParameterTypes()[0], value));
                    return;
                }
            }
        }
        throw new IllegalArgumentException("no config has " + name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object read(Class<?> type, String value) {
        if (type.isEnum()) {
            return Enum.valueOf((Class<Enum>) type, value);
        }
        if (type == boolean.class || type == Boolean.class) {
            return Boolean.valueOf(value);
        }
        if (type == int.class || type == Integer.class) {
            return Integer.valueOf(value);
        }
        if (type == long.class || type == Long.class) {
            return Long.valueOf(value);
        }
        throw new IllegalArgumentException("cannot read " + value + " as " + type);
    }

    static String text(java.nio.ByteBuffer data) {
        return StandardCharsets.UTF_8.decode(data).toString();
    }
}
