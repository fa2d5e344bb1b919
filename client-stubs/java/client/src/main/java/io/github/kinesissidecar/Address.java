// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.net.UnixDomainSocketAddress;

/**
 * The address of the sidecar.
 *
 * @param url the address as text
 * @param host the value of the Host header
 * @param name the host name, or the path of a Unix socket
 * @param port the port; 0 for a Unix socket
 */
record Address(String url, String host, String name, int port) {
    private static final String UNIX = "unix:";

    static Address parse(String url) {
        if (url.startsWith(UNIX + "/"))
            return new Address(url, "localhost", url.substring(UNIX.length()), 0);
        try {
            URI uri = URI.create(url);
            if ("http".equals(uri.getScheme()) && uri.getHost() != null
                    && (uri.getRawPath().isEmpty() || uri.getRawPath().equals("/"))) {
                int port = uri.getPort() < 0 ? 80 : uri.getPort();
                return new Address(url, uri.getRawAuthority(), uri.getHost().replaceAll("[\\[\\]]", ""), port);
            }
        } catch (IllegalArgumentException malformed) {
            // The sentence below says what is allowed.
        }
        throw new IllegalArgumentException("url must be http://HOST:PORT or unix:/PATH, got " + url);
    }

    boolean isUnix() {
        return port == 0;
    }

    /** Returns the address to connect to. A host name is looked up again for each connection. */
    SocketAddress resolve() {
        return isUnix() ? UnixDomainSocketAddress.of(name) : new InetSocketAddress(name, port);
    }
}
