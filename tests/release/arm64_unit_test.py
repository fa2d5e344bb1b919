#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit tests and the vectors, compiled for arm64 as the release is, by qemu-aarch64-static.

`make VARIANT=static-arm64 unit-programs` builds the programs. The tests that cannot run by qemu-user are named here, each with
its reason; such a test must fail, or the list is wrong.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess

import released
from lib import check, check_equal, main, test

EMULATOR = shutil.which("qemu-aarch64-static")
PROGRAMS = os.path.join(released.ROOT, "build", "static-arm64", "tests")
SOURCES = os.path.join(released.ROOT, "tests")
AT_ONCE = 2
SECONDS = 600

# program: {test: why qemu-user cannot run it}
NOT_BY_QEMU = {
}


def programs():
    """All programs that the sources have, as unit/core/settle_test."""
    found = [os.path.relpath(os.path.join(folder, name[:-2]), SOURCES) for kind in ("unit", "vectors")
             for folder, _, names in os.walk(os.path.join(SOURCES, kind)) for name in names if name.endswith("_test.c")]
    return sorted(found)


def results_of(program):
    """(program, {test: passed}, what it said)"""
    done = subprocess.run(["timeout", str(SECONDS), EMULATOR, os.path.join(PROGRAMS, program)], stdin=subprocess.DEVNULL, cwd=released.ROOT,
                          capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    tests = {name: word == "ok" for word, name in re.findall(r"^(ok|FAILED) (\w+)$", done.stdout, re.MULTILINE)}
    total = re.search(r"^(\d+) passed, (\d+) failed\n?\Z", done.stdout, re.MULTILINE)
    check(total and int(total[1]) + int(total[2]) == len(tests) > 0, f"{program} ended with {done.returncode}:", said[-2000:])
    return program, tests, said


@test(seconds=1200)
def unit_tests_and_vectors_pass_on_arm64(_):
    found = programs()
    check(len(found) > 100, f"{len(found)} programs")
    missing = [program for program in found if not os.path.exists(os.path.join(PROGRAMS, program))]
    check_equal(missing, [], "programs that `make VARIANT=static-arm64 unit-programs` has not built")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(results_of, found))
    failed = {program: sorted(name for name, passed in tests.items() if not passed) for program, tests, _ in results}
    expected = {program: sorted(NOT_BY_QEMU.get(program, {})) for program in found}
    print(f"    {sum(len(tests) for _, tests, _ in results)} tests of {len(found)} programs, "
          f"{sum(map(len, expected.values()))} of them not by qemu")
    for program, _, said in results:
        if failed[program] != expected[program]:
            print(f"--- {program}\n{said[-3000:]}")
    check_equal({program: names for program, names in failed.items() if names},
                {program: names for program, names in expected.items() if names}, "tests that fail by qemu")


if __name__ == "__main__":
    check(EMULATOR, "qemu-aarch64-static is missing (Debian: qemu-user-static)")
    main()
