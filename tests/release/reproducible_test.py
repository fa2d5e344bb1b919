#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same commit gives the same files: a second release, made in a clone in another folder, equals build/release.

The clone has a longer path, other times of its files, and another umask, time zone and language. KS_RELEASE names the folder
of the first release, which must be of this commit; KS_SECOND_RELEASE one that was made before in a clone.
"""

import hashlib
import os
import subprocess
import tarfile

import released
from lib import check, check_equal, main, test

FILES_MAX = 100


def digests(folder):
    """{name: SHA-256} of all files below a folder but the list of the digests."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def members(path):
    """What an archive of the release has: (name, mode, owner, time, digest of the content)."""
    with tarfile.open(path) as archive:
        return {(one.name, oct(one.mode), one.uid, one.gid, one.mtime,
                 hashlib.sha256(archive.extractfile(one).read()).hexdigest() if one.isfile() else one.linkname) for one in archive}


def difference(first, second):
    """Says which members of an archive differ, or where other files do."""
    if first.endswith("gz"):
        return sorted(members(first) ^ members(second))[:20]
    said = subprocess.run(["cmp", first, second], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def make_again(folder):
    """A release of this commit by a clone, and its folder."""
    clone = os.path.join(folder, "a-clone-with-a-longer-path", "kinesis-sidecar")
    released.run("git", "clone", "--quiet", "--no-hardlinks", released.ROOT, clone)
    env = {name: value for name, value in os.environ.items()
           if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "VARIANT", "SOURCE_DATE_EPOCH") and not name.startswith("KS_")}
    env.update(TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8", LANGUAGE="de")
    done = subprocess.run(["sh", "-c", "umask 077 && exec make release"], cwd=clone, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, "make release in the clone:", done.stdout[-2000:], done.stderr[-2000:])
    return os.path.join(clone, "build", "release")


@test(seconds=1200)
def two_clones_of_a_commit_give_the_same_files(folder):
    released.run(os.path.join(released.ROOT, "deploy/release/clean"))
    second = os.environ.get("KS_SECOND_RELEASE") or make_again(folder)
    ours, theirs = digests(released.RELEASE), digests(second)
    check(1 < len(ours) < FILES_MAX, f"{len(ours)} files in {released.RELEASE}")
    check_equal(sorted(theirs), sorted(ours), "files")
    different = [name for name in sorted(ours) if ours[name] != theirs[name]]
    check(not different, *(f"\n{name}: {difference(os.path.join(released.RELEASE, name), os.path.join(second, name))}"
                           for name in different))


@test()
def sums_name_each_file_and_are_right(_):
    with open(os.path.join(released.RELEASE, "SHA256SUMS"), encoding="ascii") as file:
        listed = dict(reversed(line.split("  ", 1)) for line in file.read().splitlines())
    found = digests(released.RELEASE)
    found.pop("SHA256SUMS")
    check_equal(listed, found, "SHA256SUMS")


if __name__ == "__main__":
    main()
