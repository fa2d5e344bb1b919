# SPDX-License-Identifier: Apache-2.0
"""What the proofs of a release share: its files, a root file system to run the program in, and the main job.

`make release` puts the files into build/release; KS_RELEASE names another folder.
"""

import glob
import os
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RELEASE = os.environ.get("KS_RELEASE") or os.path.join(ROOT, "build", "release")
USER = 65532
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import lib  # noqa: E402 - it is found there
from lib import check, check_equal, data_of, numbered, wait_until  # noqa: E402

# The host runs it in namespaces of their own; read-only but for /data. Each word becomes the next in the same process,
# so that kill -9 of the process that was started ends the sidecar. The last chroot needs three capabilities, and the
# program has none of them: it is not root any more.
CONTAINED = """#!/bin/sh
exec unshare --mount --propagation private sh -c '
    root=$1 data=$2
    shift 2
    mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && mount --bind "$data" "$root/data" &&
        exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \\
            chroot --userspec={user}:{user} --groups= "$root" /kinesis-sidecar "$@"
' sh '{root}' '{data}' "$@"
"""


def must_be_root():
    """Ends the program when this is not root: namespaces and chroot need it."""
    if os.geteuid() != 0:
        print("it must run as root: it makes namespaces and root file systems; try sudo -E")
        print("0 passed, 1 failed")
        sys.exit(1)


def file_of(pattern):
    """The one file of the release whose name matches."""
    found = glob.glob(os.path.join(RELEASE, pattern))
    check(len(found) == 1, f"{pattern} in {RELEASE}: {found}; `make release` makes it")
    return found[0]


def unpack_root(folder, arch="amd64"):
    """The root file system that is released, in `folder`/root, and its path."""
    root = os.path.join(folder, "root")
    with tarfile.open(file_of(f"kinesis-sidecar-*-rootfs-{arch}.tar.gz")) as archive:
        archive.extractall(root, numeric_owner=True)
    return root


def contain(folder, root):
    """Makes the program that runs the sidecar in `root`, and has the tests use it. `folder`/data is its /data."""
    data = os.path.join(folder, "data")
    os.mkdir(data)
    os.chown(data, USER, USER)
    os.chmod(folder, 0o755)
    return use_wrapper(os.path.join(folder, "contained"), CONTAINED.format(user=USER, root=root, data=data))


def use_wrapper(path, text):
    with open(path, "w", encoding="utf-8") as script:
        script.write(text)
    os.chmod(path, 0o755)
    lib.BINARY = path
    return path


def run(*args, **more):
    """The output of a command that must succeed."""
    done = subprocess.run(args, capture_output=True, text=True, check=False, **more)
    said = done.stdout[-3000:] + done.stderr[-3000:]
    check(done.returncode == 0, f"{' '.join(args)} ended with {done.returncode}:\n{said}")
    return done.stdout


def pull_and_ack(sidecar, wanted):
    """Pulls and acknowledges, each answer durable, until `wanted` records came: [(shard, sequence number, data)]."""
    came = []

    def more():
        batch = sidecar.get("/v1/records?max_records=50&wait_ms=1000")
        if batch["records"]:
            came.extend((record["shard_id"], int(record["sequence_number"]), data_of(record))
                        for record in batch["records"])
            answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted")
            check_equal((answer.status, answer.json["persisted"]), (200, True), "an ack is durable:", answer)
        return len(came) >= wanted
    wait_until(more, 60, f"{wanted} records come, {len(came)} came")
    return came


def main_job(sidecar):
    """Put, consume, acknowledge, kill -9, go on: nothing is lost, nothing durable comes back, the order is kept. The
    sidecar is started, and runs at the end."""
    sidecar.put(numbered(200))
    before = pull_and_ack(sidecar, 100)
    in_flight = sidecar.get("/v1/records?max_records=20&wait_ms=5000")["records"]
    check(in_flight, "nothing is in flight when it is killed")
    sidecar.kill()
    sidecar.start()
    sidecar.put(numbered(40, 200))
    after = pull_and_ack(sidecar, 240 - len(before))
    check_equal({data for _, _, data in after} & {data for _, _, data in before}, set(), "durable, and came back")
    check_equal({data for _, _, data in before + after}, {data for _, data in numbered(240)}, "records that came")
    check_equal(len(before) + len(after), 240, "records that came, each once")
    furthest = {}
    for shard, sequence, data in before + after:
        check(sequence > furthest.get(shard, 0), f"{data} came out of the order of {shard}")
        furthest[shard] = sequence
