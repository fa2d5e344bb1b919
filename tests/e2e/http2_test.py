#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by clients that others wrote: curl and Node, on TCP, on a Unix socket and on the ops port; and the drain."""

import json
import os
import signal
import subprocess

from http2 import DATA, END_STREAM, GOAWAY, HEADERS, PING, ACK, Peer, frame
from lib import PATIENCE, Sidecar, check, check_equal, main, numbered, test

NODE = r"""
// Opens the record stream, and on the same connection acknowledges each batch that it sees, many at a time.
const http2 = require('node:http2');
const [origin, wanted] = [process.argv[1], Number(process.argv[2])];
const session = http2.connect(origin);
session.on('error', (error) => { console.error(error); process.exit(1); });
const seen = new Map();
let acked = 0, rest = '', open = 0;
const stream = session.request({':path': '/v1/records/stream?max_in_flight=500'});
stream.setEncoding('utf8');
stream.on('response', (headers) => { if (headers[':status'] !== 200) { console.error(headers); process.exit(1); } });
function ack(ids) {
    const query = ids.map((id) => 'ack_id=' + id).join('&');
    const call = session.request({':path': '/v1/records/ack?' + query, ':method': 'POST'});
    let body = '';
    open++;
    call.setEncoding('utf8');
    call.on('data', (part) => { body += part; });
    call.on('end', () => {
        acked += JSON.parse(body).ok;
        open--;
        if (acked === wanted && open === 0) {
            console.log(JSON.stringify({records: [...seen.values()], acked}));
            session.destroy();
        }
    });
    call.end();
}
stream.on('data', (part) => {
    const ids = [];
    rest += part;
    for (let at; (at = rest.indexOf('\n')) >= 0; rest = rest.slice(at + 1)) {
        const line = JSON.parse(rest.slice(0, at));
        if (line.type !== 'record') continue;
        seen.set(line.ack_id, Buffer.from(line.data, 'base64').toString());
        ids.push(line.ack_id);
    }
    while (ids.length) ack(ids.splice(0, 20));
});
"""


def curl(*args, data=None):
    """Status and body of one call."""
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-m", str(20 * PATIENCE), "-w", "\n%{http_code} %{http_version}",
                           *args], input=data, capture_output=True, check=False)
    check_equal(done.returncode, 0, "curl", args, done.stderr)
    body, said = done.stdout.rsplit(b"\n", 1)
    status, version = said.split()
    check_equal(version, b"2", "the version that curl spoke")
    return int(status), body


@test()
def curl_is_answered_on_every_address(folder):
    path = os.path.join(folder, "api")
    sidecar = Sidecar.local(folder)
    sidecar.options["listen"] += f",unix:{path}"
    sidecar.start()
    one = sidecar.get("/v1/status")
    status, body = curl(sidecar.url + "/v1/status")
    check_equal((status, json.loads(body)["boot_id"]), (200, one["boot_id"]), "TCP")
    status, body = curl("--unix-socket", path, "http://localhost/v1/status")
    check_equal((status, json.loads(body)["boot_id"]), (200, one["boot_id"]), "Unix")
    for probe in ("/livez", "/readyz", "/startupz", "/metrics"):
        check_equal(curl(f"http://127.0.0.1:{sidecar.ops_port}{probe}")[0], 200, probe)
    check_equal(curl(f"http://127.0.0.1:{sidecar.ops_port}/v1/status")[0], 404, "no data at the ops port")
    check_equal(curl("-H", "Host: evil.example", sidecar.url + "/v1/status")[0], 403, "another host")
    check_equal(curl("-H", "Origin: http://evil.example", sidecar.url + "/v1/status")[0], 403, "another origin")
    entries = {"Records": [{"Data": "aGk=", "PartitionKey": "k"}] * 500}
    check_equal(curl("-d", "@-", sidecar.url + "/v1/local/records", data=json.dumps(entries).encode())[0], 200, "put")
    check_equal(curl("--data-binary", "@-", sidecar.url + "/v1/records/ack", data=b"x" * 3000000)[0], 413, "too large")
    sidecar.stop()


@test(60)
def node_takes_records_and_settles_them_on_one_connection(folder):
    sidecar = Sidecar.local(folder).start()
    records = numbered(3000)
    sidecar.put(records)
    done = subprocess.run(["node", "-e", NODE, sidecar.url, str(len(records))], capture_output=True,
                          timeout=50 * PATIENCE, check=False)
    check_equal(done.returncode, 0, done.stderr.decode()[-2000:])
    said = json.loads(done.stdout)
    check_equal(sorted(said["records"]), sorted(data.decode() for _, data in records), "each record once")
    check_equal(said["acked"], len(records), "acknowledged")
    sidecar.stop()


@test()
def the_end_is_announced_to_who_is_connected(folder):
    sidecar = Sidecar.local(folder).start()
    peer = Peer(sidecar.port)
    peer.ask(1, "/v1/events")
    peer.until(lambda: peer.has(HEADERS, 1), 10, "the events begin")
    sidecar.signal(signal.SIGTERM)
    peer.until(lambda: peer.has(GOAWAY), 20, "the notice")
    check_equal(int.from_bytes(next(f[3] for f in peer.frames if f[0] == GOAWAY)[:4], "big"), 0x7FFFFFFF, "nothing is lost yet")
    # A request that crosses the notice is served.
    peer.ask(3, "/v1/status")
    peer.until(lambda: peer.has(PING), 10, "the question whether the notice was heard")
    peer.send(frame(PING, ACK, 0, next(f[3] for f in peer.frames if f[0] == PING)))
    peer.until(lambda: peer.has(DATA, 3, END_STREAM), 10, "the answer to the last request")
    peer.until_closed(20, "the end")
    check_equal(peer.status(3), 200, "the last request")
    check(peer.has(DATA, 1, END_STREAM), "the events came to their end")
    check_equal(peer.goaway(), 0, "no error")
    check_equal(sidecar.wait(), 0, "status")


if __name__ == "__main__":
    main()
