// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * One HTTP/1.1 connection, over TCP or a Unix socket. java.net.http knows no Unix sockets. One thread uses a
 * connection; {@link #close} may be called from any thread.
 */
final class HttpConnection implements Closeable {
    /** A sidecar on this machine accepts at once or not at all. */
    private static final long CONNECT_MS = 5_000;
    private static final int MAX_LINE = 16 << 10;
    private static final int MAX_HEADERS = 100;
    private static final int MAX_PROBLEM = 1 << 20;
    private static final int UNTIL_CLOSE = -1;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final String host;
    private final ByteBuffer in = ByteBuffer.allocate(128 << 10).limit(0);
    private long timeoutMs = CONNECT_MS;

    private int status;
    private long retryAfterMs;
    private boolean chunked;
    private boolean keep;
    /** Bytes that are left of the body, or of the chunk. */
    private long left;

    HttpConnection(Address address) throws IOException {
        host = address.host();
        channel = address.isUnix() ? SocketChannel.open(java.net.StandardProtocolFamily.UNIX) : SocketChannel.open();
        try {
            /* A connect of a Unix socket never waits for a network. */
            if (address.isUnix())
                channel.connect(address.resolve());
            channel.configureBlocking(false);
            selector = Selector.open();
            key = channel.register(selector, 0);
            if (!address.isUnix())
                connect(address);
        } catch (IOException | RuntimeException failure) {
            close();
            throw new IOException("cannot connect to " + address.url() + ": "
                    + (failure.getMessage() != null ? failure.getMessage() : failure), failure);
        }
    }

    private void connect(Address address) throws IOException {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        if (channel.connect(address.resolve()))
            return;
        do
            await(SelectionKey.OP_CONNECT);
        while (!channel.finishConnect());
    }

    /** Sets how long a read or a write may wait for the sidecar. */
    void timeout(long milliseconds) {
        timeoutMs = milliseconds;
    }

    /** Sends a request and reads the head of its answer. The token is read anew, because it may have been rotated. */
    void request(String method, String path, Path tokenFile, String json) throws IOException {
        StringBuilder head = new StringBuilder(512).append(method).append(' ').append(path).append(" HTTP/1.1\r\nHost: ")
                .append(host).append("\r\n");
        if (tokenFile != null)
            head.append("Authorization: Bearer ").append(token(tokenFile)).append("\r\n");
        if (json == null)
            head.append("Accept: application/x-protobuf\r\n\r\n");
        else {
            byte[] body = json.getBytes(StandardCharsets.UTF_8);
            head.append("Content-Type: application/json\r\nContent-Length: ").append(body.length).append("\r\n\r\n");
            head.append(json);
        }
        write(ByteBuffer.wrap(head.toString().getBytes(StandardCharsets.UTF_8)));
        readHead();
    }

    private static String token(Path file) throws IOException {
        try {
            return Files.readString(file).strip();
        } catch (IOException failure) {
            throw new IOException("cannot read the token file: " + failure, failure);
        }
    }

    int status() {
        return status;
    }

    /** Returns true if the answer allows a further request on this connection. */
    boolean isKept() {
        return keep;
    }

    /** Reads what is left of the answer, as text. */
    String readText() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int length; (length = readBody(part, 0, part.length)) >= 0;) {
            out.write(part, 0, length);
            if (out.size() > MAX_PROBLEM)
                throw new IOException("the answer is larger than " + MAX_PROBLEM + " bytes");
        }
        return out.toString(StandardCharsets.UTF_8);
    }

    /** Returns the problem that the answer holds. */
    Refusal readRefusal() throws IOException {
        return Refusal.of(status, retryAfterMs, readText());
    }

    /** Reads bytes of the body. Returns their number, or -1 at the end. */
    int readBody(byte[] target, int offset, int length) throws IOException {
        if (left == 0 && !(chunked && nextChunk()))
            return -1;
        if (!in.hasRemaining() && !fill()) {
            if (left == UNTIL_CLOSE)
                return -1;
            throw new EOFException("the sidecar closed the connection");
        }
        int count = Math.min(length, in.remaining());
        if (left > 0)
            count = (int) Math.min(count, left);
        in.get(target, offset, count);
        if (left > 0) {
            left -= count;
            if (left == 0 && chunked)
                expectEmptyLine();
        }
        return count;
    }

    @Override
    public void close() {
        try {
            channel.close();
            if (selector != null)
                selector.close();
        } catch (IOException alreadyGone) {
            // Nothing is left to release.
        }
    }

    private void readHead() throws IOException {
        do {
            String[] line = readLine().split(" ", 3);
            if (line.length < 2 || !line[0].startsWith("HTTP/1.") || !line[1].matches("\\d{3}"))
                throw new IOException("the answer is not HTTP/1.1");
            status = Integer.parseInt(line[1]);
            readHeaders();
        } while (status < 200);
    }

    private void readHeaders() throws IOException {
        chunked = false;
        keep = true;
        retryAfterMs = 0;
        left = UNTIL_CLOSE;
        for (int count = 0;; count++) {
            String line = readLine();
            if (line.isEmpty())
                break;
            int colon = line.indexOf(':');
            if (colon < 1 || count == MAX_HEADERS)
                throw new IOException("the answer has a malformed header, or more than " + MAX_HEADERS);
            readHeader(line.substring(0, colon).toLowerCase(java.util.Locale.ROOT), line.substring(colon + 1).strip());
        }
        if (status == 204 || status < 200)
            left = 0;
        keep &= left != UNTIL_CLOSE;
    }

    private void readHeader(String name, String value) throws IOException {
        switch (name) {
            case "content-length" -> left = number(value, 10);
            case "transfer-encoding" -> {
                chunked = true;
                left = 0;
            }
            case "connection" -> keep = !value.equalsIgnoreCase("close");
            case "retry-after" -> retryAfterMs = value.matches("\\d{1,6}") ? Long.parseLong(value) * 1000 : 0;
            default -> { }
        }
    }

    private boolean nextChunk() throws IOException {
        left = number(readLine().split(";", 2)[0].strip(), 16);
        if (left > 0)
            return true;
        while (!readLine().isEmpty())
            continue;
        chunked = false;
        return false;
    }

    private void expectEmptyLine() throws IOException {
        if (!readLine().isEmpty())
            throw new IOException("the answer has a malformed chunk");
    }

    private static long number(String digits, int radix) throws IOException {
        try {
            long number = Long.parseLong(digits, radix);
            if (number >= 0)
                return number;
        } catch (NumberFormatException malformed) {
            // The sentence below says it.
        }
        throw new IOException("the answer has a malformed length");
    }

    private String readLine() throws IOException {
        StringBuilder line = new StringBuilder(80);
        while (true) {
            if (!in.hasRemaining() && !fill())
                throw new EOFException("the sidecar closed the connection");
            char c = (char) (in.get() & 0xff);
            if (c == '\n')
                break;
            if (line.append(c).length() > MAX_LINE)
                throw new IOException("the answer has a line of more than " + MAX_LINE + " bytes");
        }
        int length = line.length();
        if (length > 0 && line.charAt(length - 1) == '\r')
            line.setLength(length - 1);
        return line.toString();
    }

    /** Reads what is there, or waits. Returns false at the end of the connection. */
    private boolean fill() throws IOException {
        in.clear();
        int count = channel.read(in);
        while (count == 0) {
            await(SelectionKey.OP_READ);
            count = channel.read(in);
        }
        in.flip();
        return count > 0;
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining())
            if (channel.write(bytes) == 0)
                await(SelectionKey.OP_WRITE);
    }

    private void await(int operation) throws IOException {
        try {
            key.interestOps(operation);
            if (selector.select(timeoutMs) == 0 && channel.isOpen())
                throw new SocketTimeoutException("nothing from the sidecar for " + timeoutMs + " ms");
            selector.selectedKeys().clear();
        } catch (CancelledKeyException | ClosedSelectorException closedByAnotherThread) {
            throw new AsynchronousCloseException();
        }
    }
}
