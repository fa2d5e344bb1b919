# SPDX-License-Identifier: Apache-2.0
"""A small DNS server for the tests, on UDP and TCP (RFC 1035), port 53 of one address.

    server = Server("10.96.0.10", {"kinesis.test": {"A": ["127.0.0.1"], "AAAA": ["::1"]}})
    server.asked                              [("udp", "kinesis.test", "A"), ..] in order
    server.zone["late.test"] = {..}           counts from the next question on

A name that is not in the zone does not exist. A name without a record of the type has an empty answer. An answer of
more than 512 bytes is truncated by UDP, whatever size the client allows, so that it must come again by TCP.
"""

import socket
import socketserver
import struct
import threading

PORT = 53
UDP_MAX = 512
TYPES = {1: "A", 28: "AAAA"}
NXDOMAIN = 3
ANSWER, RECURSION_AVAILABLE, TRUNCATED = 0x8000, 0x0080, 0x0200


def read_question(message):
    """(the bytes of the first question, name, number of the type)"""
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode())
        at += 1 + message[at]
    return message[12:at + 5], ".".join(labels).lower(), struct.unpack_from(">H", message, at + 1)[0]


class Server:
    def __init__(self, address, zone, silent=False):
        self.zone, self.silent, self.asked = zone, silent, []
        server = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self):
                message, back = self.request
                answer = server.answer("udp", message)
                if answer and len(answer) > UDP_MAX:
                    answer = server.head(message, TRUNCATED, 0) + read_question(message)[0]
                if answer:
                    back.sendto(answer, self.client_address)

        class Tcp(socketserver.StreamRequestHandler):
            def handle(self):
                while size := self.rfile.read(2):
                    answer = server.answer("tcp", self.rfile.read(struct.unpack(">H", size)[0]))
                    if not answer:
                        return
                    self.wfile.write(struct.pack(">H", len(answer)) + answer)

        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listeners = []
        for kind, handler in (socketserver.ThreadingUDPServer, Udp), (socketserver.ThreadingTCPServer, Tcp):
            listener = type("Listener", (kind,), {"address_family": family, "allow_reuse_address": True,
                                                  "daemon_threads": True})((address, PORT), handler)
            threading.Thread(target=listener.serve_forever, daemon=True).start()
            self.listeners.append(listener)

    @staticmethod
    def head(message, flags, answers):
        wanted = struct.unpack_from(">H", message, 2)[0] & 0x0100
        return message[:2] + struct.pack(">HHHHH", ANSWER | RECURSION_AVAILABLE | wanted | flags, 1, answers, 0, 0)

    def answer(self, road, message):
        question, name, number = read_question(message)
        kind = TYPES.get(number, str(number))
        self.asked.append((road, name, kind))
        if self.silent:
            return None
        if name not in self.zone:
            return self.head(message, NXDOMAIN, 0) + question
        addresses = self.zone[name].get(kind, [])
        family = socket.AF_INET6 if kind == "AAAA" else socket.AF_INET
        records = b"".join(struct.pack(">HHHLH", 0xC00C, number, 1, 5, len(raw)) + raw
                           for raw in (socket.inet_pton(family, one) for one in addresses))
        return self.head(message, 0, len(addresses)) + question + records

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for listener in self.listeners:
            listener.shutdown()
            listener.server_close()
