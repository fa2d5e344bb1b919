#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit tests and the vectors, compiled for arm64 as the release is, by qemu-aarch64-static.

`make VARIANT=static-arm64 unit-programs` builds the programs. The tests that qemu-user cannot run are named here, each with its
reason; all others must pass.
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
AT_ONCE = os.cpu_count()
SECONDS = 600

# A test ends after a minute (tests/lib/ks_test.c).
SLOW = "takes longer than the minute of a test"
FORK = "qemu-user makes a vfork a fork: the error of exec does not reach the parent"
# Fewer seeds than by default: a test ends after a minute.
ROWS_SEEDS = "10"
# program: {test: why it is not run}
NOT_BY_QEMU = {
    "unit/adapters/kinesis/records_test":
        {"an_answer_with_any_byte_changed_is_none_or_read_right": SLOW + ": an answer is read for each value of each byte"},
    "unit/api/ack_id_test": {"of_ten_million_forged_ids_none_is_accepted": SLOW + ": ten million ids"},
    "unit/api/socket_test": {"room_of_a_socket_is_what_is_not_unsent": "qemu-user knows no SIOCOUTQNSD"},
    "unit/aws/credentials/command_test":
        {"what_cannot_be_started_is_told": FORK},
    "unit/aws/credentials/process_test":
        {"a_program_that_fails_is_told_without_what_it_said": FORK},
    "unit/base/codec_test": {"every_day_of_ten_thousand_years_comes_back": SLOW + ": four million days"},
    "unit/base/pattern_match_test":
        {"a_costly_match_is_made_in_parts_and_each_ends_soon": SLOW + ", and has a limit on the time of each part"},
    "unit/main/hardening_test": {"calls_that_are_never_made_are_not_there": "qemu-user knows no seccomp"},
    "unit/ports/board_filter_test":
        {"a_record_that_takes_long_to_judge_is_judged_over_many_turns": SLOW + ": one record is judged for seconds"},
}


def programs():
    """All programs that the sources have, as unit/core/settle_test."""
    found = [os.path.relpath(os.path.join(folder, name[:-2]), SOURCES) for kind in ("unit", "vectors")
             for folder, _, names in os.walk(os.path.join(SOURCES, kind)) for name in names if name.endswith("_test.c")]
    return sorted(found)


def emulate(program, *args):
    return subprocess.run(["timeout", str(SECONDS), EMULATOR, os.path.join(PROGRAMS, program), *args], stdin=subprocess.DEVNULL,
                          env=dict(os.environ, KS_ROWS_SEEDS=ROWS_SEEDS), cwd=released.ROOT, capture_output=True, text=True, errors="replace", check=False)


def results_of(program):
    """(number of tests that passed, number that failed, number that were left out, output) of one program."""
    left_out = NOT_BY_QEMU.get(program, {})
    if left_out:
        known = emulate(program, "--list").stdout.split()
        check(set(left_out) < set(known), f"{program} has not these tests, or no other ones: {sorted(left_out)}")
    done = emulate(program, *(["--without", ",".join(left_out)] if left_out else []))
    total = re.search(r"^(\d+) passed, (\d+) failed\n?\Z", done.stdout, re.MULTILINE)
    if not total:
        return 0, 1, len(left_out), f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return int(total[1]), int(total[2]), len(left_out), done.stdout + done.stderr


@test(seconds=1200)
def unit_tests_and_vectors_pass_on_arm64(_):
    found = programs()
    check(len(found) > 100, f"{len(found)} programs")
    missing = [program for program in found if not os.path.exists(os.path.join(PROGRAMS, program))]
    check_equal(missing, [], "programs that `make VARIANT=static-arm64 unit-programs` has not built")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(results_of, found))
    # The emulator is ten times slower than the machine, which tests of time limits notice beside others: once more alone.
    for index, program in enumerate(found):
        if results[index][1]:
            lines = [line for line in results[index][3].splitlines() if line.startswith("FAILED") or ".c:" in line]
            print(f"    {program} failed beside others, and runs once more alone: {lines}", flush=True)
            results[index] = results_of(program)
    passed, _, left_out = (sum(column) for column in list(zip(*results))[:3])
    print(f"    {passed} tests of {len(found)} programs passed, {left_out} are not for qemu")
    for program, (_, failed, _, said) in zip(found, results):
        if failed:
            print(f"--- {program}\n{said[-3000:]}")
    check_equal([program for program, result in zip(found, results) if result[1]], [], "programs with failures")
    check(set(NOT_BY_QEMU) <= set(found), "programs that are not there:", set(NOT_BY_QEMU) - set(found))


if __name__ == "__main__":
    check(EMULATOR, "qemu-aarch64-static is missing (Debian: qemu-user-static)")
    main()
