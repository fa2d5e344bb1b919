// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import com.google.protobuf.ByteString;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import kinesis_sidecar.v1.Barrier;
import kinesis_sidecar.v1.LeaseLost;
import kinesis_sidecar.v1.Record;
import kinesis_sidecar.v1.SessionEnd;
import kinesis_sidecar.v1.SessionEnded;
import kinesis_sidecar.v1.SessionOpened;
import kinesis_sidecar.v1.StreamEvent;

/** A small HTTP server that plays a script. Its messages are made by the code that protoc generates. */
final class ScriptedSidecar implements AutoCloseable {
    static final String OK = response(200, "", "{\"ok\":1,\"failed\":[],\"persisted\":true,\"positions\":[]}");
    /** An answer that closes the connection in its place. */
    static final String NO_ANSWER = "";

    /** What a connection to the stream does. */
    interface Script {
        void play(Stream stream) throws Exception;
    }

    /** One request. */
    record Request(String method, String path, Map<String, String> headers, String body) {
        @SuppressWarnings("unchecked")
        List<Map<String, Object>> settlements() {
            return (List<Map<String, Object>>) ((Map<String, Object>) Json.parse(body)).get("settlements");
        }

        String barrier() {
            return (String) ((Map<?, ?>) Json.parse(body)).get("barrier");
        }

        boolean has(String outcome) {
            return method.equals("POST")
                    && settlements().stream().anyMatch(item -> outcome.equals(item.get("outcome")));
        }
    }

    final LinkedBlockingQueue<Script> scripts = new LinkedBlockingQueue<>();
    final List<Request> streams = new CopyOnWriteArrayList<>();
    final List<Request> settles = new CopyOnWriteArrayList<>();
    final AtomicInteger deletes = new AtomicInteger();
    volatile Function<Request, String> settleAnswer = request -> OK;
    volatile Stream stream;

    private final ServerSocket server;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();

    ScriptedSidecar() throws IOException {
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    String url() {
        return "http://127.0.0.1:" + server.getLocalPort();
    }

    Consumer.Builder consumer() {
        return Consumer.builder("test").url(url());
    }

    /** Opens a session, delivers the records of a batch, and keeps the stream open. */
    ScriptedSidecar deliver(String batch, int... numbers) {
        scripts.add(open -> {
            /* The test may write to the stream after the first record is handled: it waits for the others. */
            synchronized (open) {
                open.begin();
                for (int number : numbers)
                    open.record(batch, number, "k", 1);
                open.heartbeat();
            }
            open.stay();
        });
        return this;
    }

    List<Request> settlesWith(String outcome) {
        return settles.stream().filter(request -> request.has(outcome)).toList();
    }

    static String response(int status, String headers, String body) {
        return "HTTP/1.1 " + status + " Word\r\n" + headers + "Content-Length: " + body.length() + "\r\n\r\n" + body;
    }

    static String problem(int status, String code, String headers) {
        return response(status, headers, "{\"type\":\"urn:kinesis-sidecar:problem:" + code + "\",\"status\":" + status
                + ",\"detail\":\"the sentence\",\"code\":\"aborted\"}");
    }

    static String refused(String ackId, String reason) {
        return response(200, "", "{\"ok\":0,\"failed\":[{\"ack_id\":\"" + ackId + "\",\"reason\":\"" + reason
                + "\",\"message\":\"the sentence\"}],\"persisted\":true,\"positions\":[]}");
    }

    @Override
    public void close() throws IOException {
        server.close();
        for (Socket socket : sockets)
            socket.close();
    }

    private void accept() {
        while (!server.isClosed()) {
            try {
                Socket socket = server.accept();
                sockets.add(socket);
                start(() -> serve(socket));
            } catch (IOException closed) {
                return;
            }
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            InputStream in = new BufferedInputStream(socket.getInputStream());
            for (Request request; (request = read(in)) != null;) {
                if (request.method.equals("GET")) {
                    streams.add(request);
                    stream = new Stream(socket, request);
                    scripts.take().play(stream);
                    return;
                }
                String answer = request.method.equals("DELETE") ? deleted() : settled(request);
                if (answer.equals(NO_ANSWER))
                    return;
                socket.getOutputStream().write(answer.getBytes(StandardCharsets.UTF_8));
            }
        } catch (Exception connectionClosed) {
            // The test has ended, or the client closed the connection.
        }
    }

    private String deleted() {
        deletes.incrementAndGet();
        return response(200, "", "{\"session\":\"test\"}");
    }

    private String settled(Request request) {
        settles.add(request);
        return settleAnswer.apply(request);
    }

    private static Request read(InputStream in) throws IOException {
        String[] line = line(in).split(" ");
        if (line.length < 3)
            return null;
        Map<String, String> headers = new java.util.HashMap<>();
        for (String header; !(header = line(in)).isEmpty();)
            headers.put(header.substring(0, header.indexOf(':')).toLowerCase(java.util.Locale.ROOT),
                    header.substring(header.indexOf(':') + 1).strip());
        byte[] body = in.readNBytes(Integer.parseInt(headers.getOrDefault("content-length", "0")));
        return new Request(line[0], line[1], headers, new String(body, StandardCharsets.UTF_8));
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int c; (c = in.read()) >= 0 && c != '\n';)
            if (c != '\r')
                out.write(c);
        return out.toString(StandardCharsets.UTF_8);
    }

    private static void start(Runnable task) {
        Thread thread = new Thread(task, "scripted-sidecar");
        thread.setDaemon(true);
        thread.start();
    }

    /** One open stream. Any thread of the test may write to it. */
    static final class Stream {
        final Request request;
        private final Socket socket;
        private final OutputStream out;

        Stream(Socket socket, Request request) throws IOException {
            this.socket = socket;
            this.request = request;
            out = socket.getOutputStream();
        }

        synchronized void answer(String response) throws IOException {
            out.write(response.getBytes(StandardCharsets.UTF_8));
            out.flush();
        }

        void begin() throws IOException {
            begin(60_000, 10_000, 1000);
        }

        void begin(long ackDeadlineMs, long heartbeatMs, int maxInFlight) throws IOException {
            answer("HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n");
            event(StreamEvent.newBuilder().setSession(SessionOpened.newBuilder().setSession("test").setClientId("test")
                    .setMaxInFlight(maxInFlight).setMaxInFlightBytes(16 << 20).setAckDeadlineMs(ackDeadlineMs)
                    .setHeartbeatMs(heartbeatMs)).build());
        }

        void record(String batch, int number, String key, int attempt) {
            record(batch, number, key, attempt, ("{\"n\":" + number + "}").getBytes(StandardCharsets.UTF_8));
        }

        void record(String batch, int number, String key, int attempt, byte[] data) {
            event(StreamEvent.newBuilder().setRecord(message(batch, number, attempt).setPartitionKey(key)
                    .setData(ByteString.copyFrom(data))).build());
        }

        /** A record of a stream with ordering by key. */
        void recordOfLane(int lane, String batch, int number, int attempt) {
            event(StreamEvent.newBuilder().setRecord(message(batch, number, attempt).setLane(lane)).build());
        }

        /** The first delivery of a record in an epoch of its lease. */
        void recordOfEpoch(long epoch, String batch, int number) {
            event(StreamEvent.newBuilder().setRecord(message(batch, number, 1).setEpoch(epoch)).build());
        }

        /** A dead letter that is delivered again. */
        void redriven(String batch, int number) {
            event(StreamEvent.newBuilder().setRecord(message(batch, number, 1).setRedriven(true)).build());
        }

        /** The ack_id of record 7 in batch b is b-7. */
        private static Record.Builder message(String batch, int number, int attempt) {
            return Record.newBuilder().setAckId(batch + "-" + number).setBatchId(batch).setStream("s")
                    .setShardId("shard-0").setEpoch(1).setSequenceNumber(Integer.toString(1000 + number))
                    .setAttempt(attempt);
        }

        void heartbeat() {
            event(StreamEvent.newBuilder().setHeartbeat(kinesis_sidecar.v1.Heartbeat.getDefaultInstance()).build());
        }

        void leaseLost() {
            event(StreamEvent.newBuilder().setLeaseLost(LeaseLost.newBuilder().setShardId("shard-0")).build());
        }

        void barrier(String barrier) {
            event(StreamEvent.newBuilder().setBarrier(Barrier.newBuilder().setBarrier(barrier)).build());
        }

        void ended(SessionEnd reason) {
            event(StreamEvent.newBuilder().setEnded(SessionEnded.newBuilder().setReason(reason)).build());
        }

        void event(StreamEvent event) {
            try {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                event.writeDelimitedTo(bytes);
                chunk(bytes.toByteArray());
            } catch (IOException broken) {
                throw new UncheckedIOException(broken);
            }
        }

        synchronized void chunk(byte[] bytes) throws IOException {
            out.write((Integer.toHexString(bytes.length) + "\r\n").getBytes(StandardCharsets.US_ASCII));
            out.write(bytes);
            out.write("\r\n".getBytes(StandardCharsets.US_ASCII));
            out.flush();
        }

        /** Keeps the connection open until the client closes it. */
        void stay() throws IOException {
            while (socket.getInputStream().read() >= 0)
                continue;
        }

        /** Closes the connection. */
        void drop() throws IOException {
            socket.close();
        }
    }
}
