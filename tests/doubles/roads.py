# SPDX-License-Identifier: Apache-2.0
"""The ways to a service: a proxy of HTTP, and a door with TLS, on free ports of this machine.

    proxy = Proxy({"kinesis.test": 4567})     names that lead nowhere else
    proxy.url; proxy.hosts; proxy.heads       what it was asked for
    door = Door(8000, certificate)            TLS in front of a server without
    authority = Authority(folder); authority.bundle; authority.certificate("DNS:dynamodb.test")

The proxy knows CONNECT, and hands on what is asked in the clear, one request to a connection.
"""

import os
import re
import select
import socket
import ssl
import subprocess
import threading


def serve(handle):
    """A listener on loopback whose connections are handled on threads of their own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=quietly, args=(handle, connection), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def quietly(handle, connection):
    """What a client does to its connection is no news here."""
    try:
        handle(connection)
    except OSError:
        pass
    finally:
        connection.close()


def pump(one, other):
    """Both ways, until one side ends."""
    while True:
        held = [side for side in (one, other) if isinstance(side, ssl.SSLSocket) and side.pending()]
        for side in held or select.select([one, other], [], [])[0]:
            data = side.recv(65536)
            if not data:
                return
            (other if side is one else one).sendall(data)


def read_until(connection, end):
    data = b""
    while end not in data:
        piece = connection.recv(65536)
        if not piece:
            raise OSError("the client left")
        data += piece
    return data


class Proxy:
    def __init__(self, ports):
        """`ports`: where on this machine each host is."""
        self.ports, self.hosts, self.heads = ports, [], []
        self.port = serve(self.handle)
        self.url = f"http://127.0.0.1:{self.port}"

    def handle(self, connection):
        head, _, body = read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.heads.append(head.decode())
        match = re.match(r"(?:http://)?([^:/]+)(?::\d+)?(/.*)?$", target)
        self.hosts.append(match.group(1))
        with socket.create_connection(("127.0.0.1", self.ports[match.group(1)])) as server:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                pump(connection, server)
                return
            size = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head).group(1))
            while len(body) < size:
                body += connection.recv(65536)
            lines = head.split(b"\r\n")
            lines[0] = f"{method} {match.group(2) or '/'} HTTP/1.1".encode()
            server.sendall(b"\r\n".join(lines + [b"Connection: close", b"", body]))
            while True:
                data = server.recv(65536)
                if not data:
                    return
                connection.sendall(data)


class Door:
    def __init__(self, target_port, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.target_port = target_port
        self.port = serve(self.handle)

    def handle(self, connection):
        with self.context.wrap_socket(connection, server_side=True) as client:
            with socket.create_connection(("127.0.0.1", self.target_port)) as server:
                pump(client, server)


class Authority:
    """Signs certificates, and is known by the bundle."""

    def __init__(self, folder):
        self.folder = folder
        self.key, self.bundle = os.path.join(folder, "authority.key"), os.path.join(folder, "authority.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", "/CN=test authority", "-keyout", self.key, "-out", self.bundle)

    @staticmethod
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def certificate(self, names):
        """The path of a file with a key and its certificate."""
        key, request, path = (os.path.join(self.folder, "server" + end) for end in (".key", ".csr", ".pem"))
        extensions = os.path.join(self.folder, "server.ext")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a server",
                     "-keyout", key, "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.bundle, "-CAkey", self.key, "-CAcreateserial", "-days", "1",
                     "-extfile", extensions, "-out", path)
        with open(key, encoding="ascii") as source, open(path, "a", encoding="ascii") as file:
            file.write(source.read())
        return path
