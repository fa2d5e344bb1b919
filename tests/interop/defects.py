#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What members of vmware-go-kcl are known to do to a row of a sidecar, where that takes the library itself. All that a hand
can do is tests/e2e/go_kcl_defects_test.py; the numbers are those of docs/DIALECTS.md."""

import os
import sys
import time

import fleet  # It finds the others.
from judge import GoKcl
from lib import check_equal, main, need_emulators, test, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from go_kcl_hand import LEASE, Table  # noqa: E402


@test(seconds=150)
def a_fresh_lease_is_not_stolen_alive_c6(folder):
    """A member takes a live lease that it once had, if the row has no Checkpoint, when its claim timeout is over."""
    table = Table(folder, shards=4, lease_stealing="on")
    theirs = table.world.member("go-kcl", "theirs-0", stealing=1, claim_ms=2000).start()
    wait_until(lambda: len(GoKcl.owned(table.world)) == 4, 40, "theirs has all")
    table.ours.start()

    def of_ours():
        return {row["ShardID"]["S"] for row in table.world.rows() if row.get("AssignedTo") == {"S": "ours-0"}}
    wait_until(lambda: len(of_ours()) == 2, 60, "ours has claimed two")
    until = time.monotonic() + 4 * LEASE
    had = of_ours()
    while time.monotonic() < until:
        theirs.lives()
        check_equal(of_ours(), had, "what ours has and nobody asked for")
        time.sleep(0.05)
    table.world.put(400)
    table.world.wait_seen(400, 60, table.ours, theirs)
    theirs.stop()
    table.over()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local", "double")
    fleet.build("go-kcl")
    main()
