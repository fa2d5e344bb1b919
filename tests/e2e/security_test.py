#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others of the host, of the pod and of the web get of a sidecar (docs/SECURITY.md), seen from outside."""

import grp
import os
import socket
import stat
import subprocess

from lib import BINARY, ROOT, Sidecar, check, check_equal, main, numbered, settle, spawn, test, wait_until

FILES = ("stream.db", "leases.db", "dead_letters.db")


def modes(folder):
    """(mode, group) of each file of state, and of its log and its shared memory."""
    found = {}
    for name in FILES:
        for end in ("", "-wal", "-shm"):
            status = os.stat(os.path.join(folder, name + end))
            found[name + end] = (stat.S_IMODE(status.st_mode), status.st_gid)
    return found


@test()
def files_of_state_are_for_the_user_alone_or_for_a_group(folder):
    os.umask(0)
    alone = os.path.join(folder, "alone")
    shared = os.path.join(folder, "shared")
    os.mkdir(alone)
    os.mkdir(shared)
    sidecar = Sidecar.local(alone).start()
    sidecar.put(numbered(10))
    check_equal(len(settle(sidecar, 10)), 10)
    for name, (mode, _) in modes(alone).items():
        check_equal(oct(mode), oct(0o600), name)
    sidecar.stop()
    group = (os.getgroups() or [os.getgid()])[-1]
    sidecar = Sidecar.local(shared, state_group=group).start()
    for name, found in modes(shared).items():
        check_equal((oct(found[0]), found[1]), (oct(0o660), group), name)
    sidecar.stop()
    sidecar = Sidecar.local(shared, state_group=grp.getgrgid(group).gr_name).start()
    sidecar.stop()


def refusal(folder, code, **options):
    """What a sidecar says that does not start."""
    sidecar = Sidecar.local(folder, "refused", **options)
    sidecar.start(ready=False)
    check_equal(sidecar.wait(), code)
    return sidecar.said()


@test()
def a_file_of_state_is_no_link_and_directories_may_be(folder):
    there = os.path.join(folder, "there")
    os.mkdir(there)
    os.symlink(there, os.path.join(folder, "way"))
    os.symlink(os.path.join(folder, "victim"), os.path.join(there, "leases.db"))
    said = refusal(folder, 1, leases=f"sqlite:{there}/leases.db")
    check("a symbolic link" in said, said)
    check(not os.path.exists(os.path.join(folder, "victim")), "it was written through the link")
    check("has no such group" in refusal(folder, 2, state_group="nobody-has-this-name"), "a group that is none")
    os.remove(os.path.join(there, "leases.db"))
    Sidecar.local(folder, leases=f"sqlite:{folder}/way/leases.db").start().stop()


@test()
def a_process_that_begins_without_standard_descriptors_serves_as_any(folder):
    sidecar = Sidecar.local(folder)
    with open(sidecar.log, "w", encoding="ascii"):
        pass  # It has nowhere to write to.
    command = 'exec "$0" "$@" <&- >&- 2>&-'
    sidecar.process = spawn(["sh", "-c", command, BINARY, "run", *sidecar.args])
    sidecar.wait_ready()
    sidecar.put(numbered(100))
    check_equal(len(settle(sidecar, 100)), 100)
    sidecar.stop()


def status_of(port, host, path):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return int(link.makefile("rb").readline().split()[1])


@test()
def a_page_of_the_web_reaches_neither_port(folder):
    sidecar = Sidecar.local(folder, allow_host="friend.example").start()
    for host, api, ops in (("localhost:1", 200, 200), ("evil.example", 403, 403), ("friend.example", 200, 200),
                           ("sidecar.orders.svc", 403, 200), ("10.0.0.1:8991", 403, 200), ("localhost:junk", 403, 403)):
        check_equal(status_of(sidecar.port, host, "/v1/status"), api, "the local API:", host)
        check_equal(status_of(sidecar.ops_port, host, "/metrics"), ops, "the ops port:", host)
    check_equal(status_of(sidecar.port, "localhost", "/v1%2fstatus"), 404, "another way to write a path")
    sidecar.stop()


@test()
def an_app_orders_nothing_of_an_operator(folder):
    for name in ("app", "boss"):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(name)
        os.chmod(os.path.join(folder, name), 0o600)
    sidecar = Sidecar.local(folder, token_file=os.path.join(folder, "app"), operator_token_file=os.path.join(folder, "boss"))
    sidecar.start()
    orders = (("POST", "/v1/drain"), ("POST", "/v1/pause"), ("POST", "/v1/resume"), ("POST", "/v1/seek"), ("POST", "/v1/quit"),
              ("POST", "/v1/leases/shardId-000000000000/release"), ("PUT", "/v1/loglevel"),
              ("POST", "/v1/dead-letters/x/redrive"), ("POST", "/v1/dead-letters/x/discard"),
              ("POST", "/kinesis_sidecar.v1.Admin/Pause"))
    for method, path in orders:
        answer = sidecar.call(method, path, body=b"{}", headers={"Authorization": "Bearer app", "Content-Type": "application/json"})
        check_equal(answer.status, 403, path)
    check_equal(sidecar.call("GET", "/v1/status", headers={"Authorization": "Bearer app"}).status, 200)
    check_equal(sidecar.call("POST", "/v1/pause", body=b"{}", headers={"Authorization": "Bearer boss"}).status, 200)
    check_equal(sidecar.call("POST", "/v1/pause", body=b"{}").status, 401)
    command = subprocess.run([BINARY, "drain", *sidecar.args], check=False,
                             capture_output=True, timeout=30)
    check_equal(command.returncode, 0, command.stderr)
    sidecar.stop()


@test()
def where_the_kernel_has_no_landlock_and_no_seccomp_it_says_so_and_starts(folder):
    sidecar = Sidecar.local(folder, seccomp="on")
    sidecar.wrapper = [os.path.join(os.environ.get("KS_BUILD") or os.path.join(ROOT, "build"), "doubles", "old_kernel")]
    sidecar.start()
    sidecar.put(numbered(20))
    check_equal(len(settle(sidecar, 20)), 20)
    sidecar.stop()
    lines = [line for line in sidecar.said().splitlines() if "hardening:" in line]
    for part in ("no PR_SET_NO_NEW_PRIVS", "no Landlock here (Function not implemented)",
                 "no seccomp here (Invalid argument): --seccomp does nothing"):
        check(len([line for line in lines if part in line]) == 1, f"one line says {part!r}: {lines}")
    check_equal(len(lines), 3)


@test()
def with_seccomp_everything_of_a_day_goes_on(folder):
    sidecar = Sidecar.local(folder, seccomp="on", listen=f"unix:{folder}/api")
    sidecar.options["listen"] = f"127.0.0.1:{sidecar.port},unix:{folder}/api"
    # At its end the sanitizer of leaks traces the process, which is not on the list of calls.
    sidecar.env = {**sidecar.env, "ASAN_OPTIONS": "detect_leaks=0"}
    sidecar.start()
    sidecar.put(numbered(200))
    check_equal(len(settle(sidecar, 200)), 200)
    record = None
    sidecar.put(numbered(1, 200))

    def one():
        nonlocal record
        records = sidecar.get("/v1/records?max_records=1&wait_ms=1000")["records"]
        record = records[0] if records else None
        return record
    wait_until(one, 10, "a record")
    sidecar.call("POST", "/v1/records/settle", body=b'{"settlements":[{"ack_id":"%s","outcome":"dead_letter"}]}' %
                 record["ack_id"].encode(), headers={"Content-Type": "application/json"})
    wait_until(lambda: sidecar.get("/v1/dead-letters")["dead_letters"], 10, "its dead letter")
    sidecar.stop()
    check("hardening" not in sidecar.said(), sidecar.said())


main()
