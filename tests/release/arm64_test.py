#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program that is released for arm64, by qemu-aarch64-static: the main job, and the layers that qemu-user lacks.

KS_ARM64 names the program; by default it is that of the release.
"""

import os
import shutil

import released
from lib import Sidecar, check, check_equal, main, test

EMULATOR = shutil.which("qemu-aarch64-static")


def emulated(folder, **options):
    """A sidecar on a local stream, of the program for arm64."""
    program = os.environ.get("KS_ARM64") or released.file_of("arm64/kinesis-sidecar")
    released.use_wrapper(os.path.join(folder, "arm64"), f'#!/bin/sh\nexec {EMULATOR} {program} "$@"\n')
    return Sidecar.local(folder, local_shards=4, **options)


@test(seconds=120)
def main_job_is_done_on_arm64(folder):
    sidecar = emulated(folder).start()
    released.main_job(sidecar)
    check_equal(sidecar.command("health", "startupz").returncode, 0, "startupz")
    sidecar.stop()


@test(seconds=60)
def kernel_without_seccomp_and_landlock_is_one_log_line_each(folder):
    sidecar = emulated(folder, seccomp="on").start()
    said = sidecar.said().splitlines()
    for layer in ("seccomp", "landlock"):
        lines = [line for line in said if layer in line.lower()]
        print("\n".join("    " + line for line in lines))
        check_equal(len(lines), 1, f"lines about {layer}:", lines)
    sidecar.stop()


if __name__ == "__main__":
    check(EMULATOR, "qemu-aarch64-static is missing (Debian: qemu-user-static)")
    main()
