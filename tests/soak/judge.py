# SPDX-License-Identifier: Apache-2.0
"""Judges the diaries of the apps of a soak: nothing lost, order kept, one owner an epoch."""

import collections
import heapq
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import Failure, check  # noqa: E402

Delivery = collections.namedtuple("Delivery", "at worker shard epoch sequence attempt key number")


def read_deliveries(worker, path, acked):
    """The deliveries of a diary in the order of time. Adds (key, number) of what was acknowledged to `acked`."""
    with open(path, encoding="ascii") as diary:
        for line in diary:
            if not line.endswith("\n"):
                continue  # A kill cut it.
            words = line.split()
            key, number = words[-1].rsplit(":", 1)
            if words[0] == "ack":
                acked[key].add(int(number))
            else:
                yield Delivery(float(words[0]), worker, words[1], int(words[2]), int(words[3]), int(words[4]), key, int(number))


class Judge:
    def __init__(self):
        self.expected = collections.Counter()  # Key -> its first number that has not come to anybody.
        self.here = {}                         # (Key, shard, epoch) -> the same within.
        self.furthest = {}                     # (Shard, epoch) -> the furthest sequence number.
        self.owner = {}                        # (Shard, epoch) -> worker.
        self.owners = collections.defaultdict(list)  # Shard -> its workers, one after the other.
        self.deliveries = self.again = 0

    def see(self, delivery):
        key, number, epoch = delivery.key, delivery.number, (delivery.shard, delivery.epoch)
        self.deliveries += 1
        if number > self.expected[key]:
            raise Failure(f"{delivery} overtook {key}:{self.expected[key]}, or that is lost")
        if number == self.expected[key]:
            self.expected[key] += 1
        else:
            self.again += 1
        at = self.here.get((key, *epoch), number)
        if number > at:
            raise Failure(f"{delivery} overtook {key}:{at} within its epoch")
        self.here[(key, *epoch)] = max(at, number + 1)
        furthest = self.furthest.get(epoch, 0)
        if delivery.attempt == 1 and delivery.sequence <= furthest:
            raise Failure(f"{delivery} is a first attempt behind {furthest}")
        self.furthest[epoch] = max(furthest, delivery.sequence)
        if epoch not in self.owner:
            self.owner[epoch] = delivery.worker
            self.owners[delivery.shard].append(delivery.worker)
        if self.owner[epoch] != delivery.worker:
            raise Failure(f"{delivery}: the epoch is of {self.owner[epoch]}")


def judge(diaries, put):
    """`diaries`: worker -> path; `put`: key -> how many of it, numbered from 0."""
    acked = collections.defaultdict(set)
    judge_ = Judge()
    for delivery in heapq.merge(*(read_deliveries(*diary, acked) for diary in diaries.items())):
        judge_.see(delivery)
    lost = {key: (judge_.expected[key], count) for key, count in put.items() if judge_.expected[key] != count}
    check(not lost, "never came (key: from, to):", dict(list(lost.items())[:20]))
    unsettled = [key for key, count in put.items() if len(acked[key]) != count]
    check(not unsettled, "never acknowledged, records of", unsettled[:20])
    hand_overs = sum(one != other for owners in judge_.owners.values() for one, other in zip(owners, owners[1:]))
    check(hand_overs > 0, "no lease went from one sidecar to the other")
    print(f"    {judge_.deliveries} deliveries, {judge_.again} of them again; {len(judge_.owner)} epochs of "
          f"{len(judge_.owners)} shards, {hand_overs} hand-overs; nothing lost, order kept", flush=True)
