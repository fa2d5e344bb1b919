#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge.py [PART..] - judges what deploy/ has: charts, values, manifests, alerts, running, others. `run` calls it."""

import shutil
import sys
import time

import world
import judge_alerts
import judge_charts
import judge_manifests
import judge_others
import judge_running
import judge_values

PARTS = {"charts": judge_charts, "values": judge_values, "manifests": judge_manifests, "alerts": judge_alerts,
         "running": judge_running, "others": judge_others}


def main():
    cases = world.Cases()
    try:
        world.prepare_charts()
        for name in sys.argv[1:] or PARTS:
            before, started = (cases.passed, cases.failed), time.monotonic()
            # What a part renders before its cases may fail, too.
            cases.case(f"{name}: judged to its end", PARTS[name].judge, cases)
            print(f"  {name:<12} {cases.passed - before[0]:4d} passed, {cases.failed - before[1]} failed "
                  f"{time.monotonic() - started:6.1f} s", flush=True)
    finally:
        shutil.rmtree(world.WORK, ignore_errors=True)
    print(f"{cases.passed} passed, {cases.failed} failed")
    return 1 if cases.failed or not cases.passed else 0


if __name__ == "__main__":
    sys.exit(main())
