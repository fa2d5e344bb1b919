// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Assertions;

/** The sidecar's binary with a local stream. */
final class RealSidecar implements AutoCloseable {
    final String url;
    private final Path directory;
    private final List<String> command = new ArrayList<>();
    private final Options client;
    private Process process;

    RealSidecar(Path directory, String... options) throws Exception {
        this(directory, "http://127.0.0.1:" + freePort(), null, options);
    }

    RealSidecar(Path directory, String url, Path tokenFile, String... options) throws Exception {
        this.url = url;
        this.directory = directory;
        Options address = new Options("admin");
        address.address = Address.parse(url);
        address.tokenFile = tokenFile;
        client = address;
        command.addAll(List.of(binary(), "--source", "local:" + directory.resolve("stream.db"), "--stream", "demo",
                "--application", "demo", "--initial-position", "trim_horizon", "--state-dir", directory.toString(),
                "--listen", url.replace("http://", ""), "--ops-listen", "127.0.0.1:" + freePort(),
                "--worker-id", "test"));
        command.addAll(Arrays.asList(options));
        start();
    }

    void start() throws Exception {
        process = new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(directory.resolve("log").toFile())).start();
        Eventually.until("the sidecar is ready", this::isReady);
    }

    /** kill -9. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    Consumer.Builder consumer(String clientId) {
        return Consumer.builder(clientId).url(url).shutdownHook(false);
    }

    void put(String key, String data) throws IOException {
        put(List.of(Map.entry(key, data)));
    }

    void put(List<Map.Entry<String, String>> records) throws IOException {
        StringBuilder json = new StringBuilder("{\"Records\":[");
        for (Map.Entry<String, String> record : records)
            json.append(json.length() > 12 ? "," : "").append("{\"PartitionKey\":\"").append(record.getKey())
                    .append("\",\"Data\":\"")
                    .append(Base64.getEncoder().encodeToString(record.getValue().getBytes(StandardCharsets.UTF_8)))
                    .append("\"}");
        request("POST", "/v1/local/records", json.append("]}").toString());
    }

    @SuppressWarnings("unchecked")
    List<Map<String, Object>> deadLetters() {
        return (List<Map<String, Object>>) get("/v1/dead-letters").get("dead_letters");
    }

    /** Returns true if `count` records were settled, and no record is with a session. */
    boolean hasSettled(int count) {
        long settled = 0;
        for (Object item : (List<?>) get("/v1/shards").get("shards")) {
            Map<?, ?> shard = (Map<?, ?>) item;
            if (((Number) shard.get("in_flight")).intValue() > 0)
                return false;
            settled += ((Number) shard.get("settled")).longValue();
        }
        return settled == count;
    }

    Map<String, Object> get(String path) {
        try {
            return request("GET", path, "");
        } catch (IOException failure) {
            return Assertions.fail(failure);
        }
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> request(String method, String path, String json) throws IOException {
        try (HttpConnection connection = new HttpConnection(client.address, java.nio.ByteBuffer.allocate(8192))) {
            connection.request(method, path, client.tokenFile, json);
            String body = connection.readText();
            Assertions.assertEquals(200, connection.status(), body);
            return (Map<String, Object>) Json.parse(body);
        }
    }

    private boolean isReady() {
        Assertions.assertTrue(process.isAlive(), "the sidecar has ended; see " + directory.resolve("log"));
        try {
            return Boolean.TRUE.equals(request("GET", "/v1/status", "").get("ready"));
        } catch (IOException notYet) {
            return false;
        }
    }

    private static String binary() {
        String binary = System.getenv("KINESIS_SIDECAR_BIN");
        Assertions.assertTrue(binary != null && Files.isExecutable(Path.of(binary)),
                "KINESIS_SIDECAR_BIN must name the binary of the sidecar, got " + binary);
        return binary;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    @Override
    public void close() throws InterruptedException {
        kill();
    }
}
