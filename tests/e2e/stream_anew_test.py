#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stream that is deleted and made again under its name while a sidecar reads it, on DynamoDB and Kinesis (emulated)."""

import time

from lib import (Sidecar, check, check_equal, kinesis, lease_rows, main, make_stream, need_emulators, numbered, pull_all,
                 put_kinesis, test)


def checkpoints(table):
    return {shard: row["checkpoint"] for shard, row in lease_rows(table).items()}


@test(seconds=60)
def the_old_checkpoints_are_not_used_for_the_new_stream_and_not_lost(folder):
    make_stream("anew", 2)
    sidecar = Sidecar.on_emulators(folder, "pod-a", stream="anew", application="anew-app").start()
    put_kinesis("anew", numbered(20))
    pull_all(sidecar, 20)
    before = checkpoints("anew-app")

    kinesis("DeleteStream", StreamName="anew")
    time.sleep(2)  # Streams tell their creation to the second.
    make_stream("anew", 2)
    put_kinesis("anew", numbered(20, 20))
    check_equal(sidecar.wait(30), 1, "status")
    check("stream anew was made anew since application anew-app began" in sidecar.said(), "it says why")
    check_equal(checkpoints("anew-app"), before, "checkpoints")

    # It is the same for whoever comes next, and another application may begin.
    again = Sidecar.on_emulators(folder, "pod-b", stream="anew", application="anew-app").start(ready=False)
    check_equal(again.wait(30), 1, "status of the next one")
    check_equal(checkpoints("anew-app"), before, "checkpoints")
    other = Sidecar.on_emulators(folder, "pod-c", stream="anew", application="anew-other").start()
    check_equal(len(pull_all(other, 20)), 20, "records of the new stream")
    other.stop()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
