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
import java.util.Arrays;

/**
 * One HTTP/1.1 connection, over TCP or a Unix socket. java.net.http knows no Unix sockets. One thread uses a
 * connection; {@link #close} may be called from any thread.
 */
final class HttpConnection implements Closeable {
    /** A sidecar on this machine accepts at once or not at all. */
    private static final long CONNECT_MS = 5_000;
    private static final int MAX_LINE = 16 << 10;
    private static final int MAX_HEADERS = 100;
    private static final long MAX_RETRY_AFTER_S = 86_400;
    private static final int MAX_PROBLEM = 1 << 20;
    private static final long MAX_CHUNK = 1L << 40;
    private static final long UNTIL_CLOSE = Long.MAX_VALUE;
    private static final long NO_DIGIT = -1;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final String host;
    /** Bytes that were received and not read. */
    private final ByteBuffer in;
    private long timeoutMs = CONNECT_MS;

    private int status;
    private long retryAfterMs;
    private boolean chunked;
    private boolean keep;
    /** Bytes that are left of the body, or of the chunk. */
    private long left;
    /** Of the next chunk. */
    private long chunkLength = NO_DIGIT;
    private boolean inExtension;

    HttpConnection(Address address, ByteBuffer buffer) throws IOException {
        in = buffer.limit(0);
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
        StringBuilder head = new StringBuilder(512).append(method).append(' ').append(path)
                .append(" HTTP/1.1\r\nHost: ").append(host).append("\r\n");
        if (tokenFile != null)
            head.append("Authorization: Bearer ").append(token(tokenFile)).append("\r\n");
        byte[] body = json == null ? new byte[0] : json.getBytes(StandardCharsets.UTF_8);
        if (json == null)
            head.append("Accept: application/x-protobuf\r\n\r\n");
        else
            head.append("Content-Type: application/json\r\nContent-Length: ").append(body.length).append("\r\n\r\n");
        write(ByteBuffer.wrap(head.toString().getBytes(StandardCharsets.UTF_8)), ByteBuffer.wrap(body));
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

    /** Reads the bytes of the body that are here, or waits for some. Returns their number, or -1 at the end. */
    int readBody(byte[] target, int offset, int length) throws IOException {
        int count = 0;
        while (count == 0 && (left > 0 || chunked)) {
            if (!in.hasRemaining() && !fill()) {
                if (left == UNTIL_CLOSE)
                    return -1;
                throw new EOFException("the sidecar closed the connection");
            }
            count = take(target, offset, length);
        }
        return count > 0 ? count : -1;
    }

    /** Moves bytes of the body that were received, of several chunks. */
    private int take(byte[] target, int offset, int length) throws IOException {
        int count = 0;
        while (in.hasRemaining() && count < length && (left > 0 || chunked)) {
            if (left == 0) {
                readBetweenChunks((char) in.get());
                continue;
            }
            int part = (int) Math.min(left, Math.min(in.remaining(), length - count));
            in.get(target, offset + count, part);
            count += part;
            if (left != UNTIL_CLOSE)
                left -= part;
        }
        return count;
    }

    /** Takes a character of the line end after a chunk, or of the line before one: its length and extensions. */
    private void readBetweenChunks(char c) throws IOException {
        if (c == '\n') {
            if (chunkLength == 0)
                endChunks();
            else if (chunkLength > 0)
                left = chunkLength;
            chunkLength = NO_DIGIT;
            inExtension = false;
        } else if (c == ';') {
            inExtension = true;
        } else if (!inExtension && c != '\r') {
            int digit = Character.digit(c, 16);
            if (digit < 0 || chunkLength > MAX_CHUNK)
                throw new IOException("the answer has a malformed chunk");
            chunkLength = Math.max(chunkLength, 0) << 4 | digit;
        }
    }

    private void endChunks() throws IOException {
        while (!readLine().isEmpty())
            continue;
        chunked = false;
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
            String line = readLine();
            status = line.startsWith("HTTP/1.") && line.length() >= 12 ? (int) number(line.substring(9, 12)) : -1;
            if (status < 100)
                throw new IOException("the answer is not HTTP/1.1");
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
            case "content-length" -> {
                left = number(value);
                if (left < 0)
                    throw new IOException("the answer has a malformed length");
            }
            case "transfer-encoding" -> {
                chunked = true;
                left = 0;
            }
            case "connection" -> keep = !value.equalsIgnoreCase("close");
            case "retry-after" -> retryAfterMs = Math.max(0, Math.min(number(value), MAX_RETRY_AFTER_S)) * 1000;
            default -> { }
        }
    }

    /** Returns the number that a header has, or -1. */
    private static long number(String digits) {
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException otherText) {
            return -1;
        }
    }

    private String readLine() throws IOException {
        byte[] line = {};
        do {
            if (!in.hasRemaining() && !fill())
                throw new EOFException("the sidecar closed the connection");
            int length = line.length;
            line = Arrays.copyOf(line, length + lengthOfLine());
            if (line.length > MAX_LINE)
                throw new IOException("the answer has a line of more than " + MAX_LINE + " bytes");
            in.get(line, length, line.length - length);
        } while (line[line.length - 1] != '\n');
        return new String(line, StandardCharsets.ISO_8859_1).stripTrailing();
    }

    /** Returns the number of bytes to the end of the line, or of all that were received. */
    private int lengthOfLine() {
        int end = in.position();
        while (end < in.limit())
            if (in.get(end++) == '\n')
                break;
        return end - in.position();
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

    private void write(ByteBuffer head, ByteBuffer body) throws IOException {
        ByteBuffer[] parts = {head, body};
        while (head.hasRemaining() || body.hasRemaining())
            if (channel.write(parts) == 0)
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
