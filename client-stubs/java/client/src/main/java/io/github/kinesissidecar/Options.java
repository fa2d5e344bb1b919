// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadFactory;

/** The options of a consumer. A number that is 0 was not set: the sidecar's default holds. */
final class Options implements Cloneable {
    static final String DEFAULT_URL = "http://127.0.0.1:8990";
    static final int MAX_LANES = 64;
    static final long MAX_DELAY_MS = 43_200_000;
    private static final int MAX_CLIENT_ID = 64;

    final String clientId;
    Address address = Address.parse(environment("KINESIS_SIDECAR_URL", DEFAULT_URL));
    Path tokenFile = tokenFileOfEnvironment();
    int concurrency = 1;
    int maxInFlight;
    long maxInFlightBytes;
    long ackDeadlineMs;
    long heartbeatMs;
    /** An answer to a settle request that is later than this is taken for lost. Tests change it. */
    long answerMs = 5_000;
    Duration maxProcessing = Duration.ofHours(1);
    Duration ackInterval = Duration.ofMillis(100);
    Ordering ordering;
    int lanes;
    List<String> shards = List.of();
    String share = "";
    String salt = "";
    String filter = "";
    String subscription = "";
    EventListener listener = event -> { };
    ThreadFactory threadFactory;
    boolean shutdownHook = true;

    Options(String clientId) {
        if (!clientId.matches("[A-Za-z0-9._-]{1," + MAX_CLIENT_ID + "}"))
            throw new IllegalArgumentException("client_id must be 1..64 characters of A-Z a-z 0-9 . _ -, got \""
                    + clientId + "\"");
        this.clientId = clientId;
    }

    /** Returns a copy with the defaults that depend on other options. A builder may be used again. */
    Options copy() {
        Options copy = clone();
        if (threadFactory == null)
            copy.threadFactory = Workers.threadFactory(clientId);
        if (ordering == null)
            copy.ordering = concurrency > 1 || !share.isEmpty() ? Ordering.KEY : Ordering.SHARD;
        if (lanes > 0 && copy.ordering != Ordering.KEY)
            throw new IllegalArgumentException("lanes need ordering KEY, got " + copy.ordering);
        if (lanes == 0 && copy.ordering == Ordering.KEY)
            copy.lanes = MAX_LANES;
        return copy;
    }

    @Override
    protected Options clone() {
        try {
            return (Options) super.clone();
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Returns the path and the query that open the stream. An option that was not set is not in it. */
    String streamPath() {
        StringBuilder path = new StringBuilder("/v1/records/stream?client_id=").append(clientId);
        add(path, "max_in_flight", maxInFlight);
        add(path, "max_in_flight_bytes", maxInFlightBytes);
        add(path, "ack_deadline_ms", ackDeadlineMs);
        add(path, "heartbeat_ms", heartbeatMs);
        add(path, "lanes", lanes);
        if (ordering != Ordering.SHARD)
            path.append("&ordering=").append(ordering.word());
        add(path, "shards", String.join(",", shards));
        add(path, "share", share);
        add(path, "salt", salt);
        add(path, "filter", filter);
        add(path, "subscription", subscription);
        return path.toString();
    }

    String sessionPath() {
        String path = "/v1/sessions/" + clientId;
        return subscription.isEmpty() ? path : path + "?subscription=" + encode(subscription);
    }

    static long within(String name, long value, long min, long max) {
        if (value < min || value > max)
            throw new IllegalArgumentException(name + " must be " + min + ".." + max + ", got " + value);
        return value;
    }

    private static void add(StringBuilder path, String name, long value) {
        if (value > 0)
            path.append('&').append(name).append('=').append(value);
    }

    private static void add(StringBuilder path, String name, String text) {
        if (!text.isEmpty())
            path.append('&').append(name).append('=').append(encode(text));
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String environment(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    private static Path tokenFileOfEnvironment() {
        String file = environment("KINESIS_SIDECAR_TOKEN_FILE", "");
        return file.isEmpty() ? null : Path.of(file);
    }
}
