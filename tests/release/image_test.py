#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/docker/Dockerfile, built by buildah on a Debian that debootstrap makes (tests/release/image), and
its root file system: read-only, as its user, without capabilities, without /proc and /dev.

KS_IMAGE names a folder that tests/release/image has filled before.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import released
from lib import Sidecar, check, check_equal, main, test

SIZE_MAX = 12_000_000
FOLDER = os.environ.get("KS_IMAGE")


def root_of(folder):
    """A copy of the image's root file system, with the program of the tests contained in it."""
    root = os.path.join(folder, "root")
    subprocess.run(["cp", "-a", os.path.join(FOLDER, "root"), root], check=True)
    released.contain(folder, root)
    return root


def embedded(folder):
    root_of(folder)
    return Sidecar.local(folder, source="local:/data/stream.db", leases="sqlite:/data/leases.db", local_shards=4)


@test()
def image_is_small_and_has_the_files_of_the_release(_):
    with open(os.path.join(FOLDER, "size"), encoding="ascii") as file:
        size = int(file.read())
    print(f"    {size:,} bytes")
    check(size < SIZE_MAX, f"{size} bytes; {SIZE_MAX} are allowed")
    found = sorted(os.path.relpath(os.path.join(folder, name), os.path.join(FOLDER, "root"))
                   for folder, _, names in os.walk(os.path.join(FOLDER, "root")) for name in names)
    check_equal(found, ["etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "kinesis-sidecar"], "files")
    program = os.path.join(FOLDER, "root", "kinesis-sidecar")
    said = released.run("readelf", "--program-headers", "--dynamic", program)
    check("INTERP" not in said and "NEEDED" not in said, "the program needs a loader or a library:", said)


@test()
def configuration_is_that_of_a_user_who_is_not_root(_):
    with open(os.path.join(FOLDER, "config.json"), encoding="utf-8") as file:
        config = json.load(file)["Docker"]["config"]
    expected = {"User": "65532:65532", "Entrypoint": ["/kinesis-sidecar"], "WorkingDir": "/data",
                "StopSignal": "SIGTERM", "Volumes": {"/data": {}}, "ExposedPorts": {"8991/tcp": {}}}
    check_equal({name: config.get(name) for name in expected}, expected, "configuration")
    check("KINESIS_SIDECAR_OPS_LISTEN=0.0.0.0:8991" in config["Env"], "variables:", config["Env"])


def healthcheck():
    with open(os.path.join(FOLDER, "config.json"), encoding="utf-8") as file:
        return json.load(file)["Docker"]["config"]["Healthcheck"]


@test()
def healthcheck_asks_startupz_by_the_program_itself(_):
    second = 1_000_000_000
    check_equal(healthcheck(), {"Test": ["CMD", "/kinesis-sidecar", "health", "startupz"], "Interval": 5 * second,
                                "Timeout": 5 * second, "StartPeriod": 30 * second, "Retries": 6}, "healthcheck")


@test(seconds=60)
def main_job_is_done_without_root_write_access_and_capabilities(folder):
    sidecar = embedded(folder).start()
    with open(f"/proc/{sidecar.process.pid}/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    check_equal({name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
                {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0}, "capabilities")
    check_equal((set(status["Uid"].split()), status["Groups"].strip(), status["NoNewPrivs"]),
                ({str(released.USER)}, "", "1"), "user, groups, no_new_privs")
    with open(f"/proc/{sidecar.process.pid}/mounts", encoding="utf-8") as file:
        options = {line.split()[1]: line.split()[3].split(",") for line in file}
    check("ro" in options["/"] and "rw" in options["/data"], "mounts:", options)
    released.main_job(sidecar)
    sidecar.stop()


@test()
def probes_and_drain_are_asked_by_the_program_itself(folder):
    sidecar = embedded(folder).start()
    command = healthcheck()["Test"][2:]
    check_equal(sidecar.command(*command).returncode, 0, "the healthcheck of the image")
    done = sidecar.command("drain")
    check_equal((done.returncode, json.loads(done.stdout.splitlines()[-1])["drained"]), (0, True), done)
    check_equal(sidecar.command("health").returncode, 1, "readyz while draining")
    sidecar.signal(signal.SIGTERM)
    check_equal(sidecar.wait(), 0, "status after the drain")
    check_equal(sidecar.command(*command).returncode, 1, "the healthcheck of a sidecar that has ended")


@test()
def closed_descriptor_without_dev_null_is_an_error(folder):
    root_of(folder)
    done = subprocess.run(["sh", "-c", 'exec "$0" version <&-', released.lib.BINARY], capture_output=True, text=True,
                          check=False)
    check_equal((done.returncode, done.stdout), (1, ""), done)
    check("/dev/null cannot be opened" in done.stderr, done)


if __name__ == "__main__":
    released.must_be_root()
    made = None
    if FOLDER is None:
        FOLDER = made = tempfile.mkdtemp(prefix="ks-image-", dir="/var/tmp")
        os.chmod(made, 0o755)
        log = os.path.join(made, "log")
        with open(log, "wb") as output:
            built = subprocess.run([os.path.join(released.HERE, "image"), made], stdout=output, stderr=output,
                                   check=False)
        if built.returncode != 0:
            with open(log, encoding="utf-8", errors="replace") as output:
                print(output.read()[-5000:])
            print("the image could not be built\n0 passed, 1 failed")
            shutil.rmtree(made, ignore_errors=True)
            sys.exit(1)
    try:
        main()
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
