#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each library alone, with nothing of ours: that its member, the emulators and the judge are what they should be.

    alone.py [LIBRARY..]     builds and judges these, or all

8 shards, 5,000 records, two members; one is stopped, one is killed and started again under its name.
"""

import sys

import fleet
from lib import PATIENCE, check, main, need_emulators, test

COUNT = 5000
SHARDS = 8


def story(name, folder):
    library = fleet.LIBRARIES[name]
    world = fleet.World(folder, SHARDS)
    world.put(1500)
    a = world.member(name, "worker-a", work_us=500).start().awake()
    b = world.member(name, "worker-b", work_us=500).start()
    world.wait_seen(1500, 90, a, b)
    world.put(1000)
    took = a.stop()
    world.put(500)
    world.wait_seen(3000, library.unread, b)
    b.kill()
    world.put(1000)
    b.start()
    world.put(1000)
    world.wait_seen(COUNT, library.unread + 30, b)
    b.stop()
    verdict = fleet.Verdict(world).read().nothing_lost().nothing_passed()
    seconds, shard, _ = verdict.unread()
    check(seconds < library.unread * PATIENCE, f"{shard} was unread for {seconds:.1f} s")
    print(f"       {name}: {dict(verdict.told)}, {verdict.duplicates()} duplicates, unread for {seconds:.1f} s at most, "
          f"stopped in {took:.1f} s", flush=True)


def tell(name):
    def alone(folder):
        story(name, folder)
    alone.__name__ = name.replace("-", "_") + "_alone"
    test(seconds=400)(alone)


if __name__ == "__main__":
    names = sys.argv[1:] or list(fleet.LIBRARIES)
    for wanted in names:
        check(wanted in fleet.LIBRARIES, f"{wanted} is none of {', '.join(fleet.LIBRARIES)}")
    need_emulators("dynoxide", "kinesis-local")
    fleet.build(*names)
    for wanted in names:
        tell(wanted)
    del sys.argv[1:]
    main()
