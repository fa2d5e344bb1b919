# SPDX-License-Identifier: Apache-2.0
"""sdk.py COUNT - an app that calls boto3 by itself: GetRecords for one shard after the other, from TRIM_HORIZON."""

import os
import sys
import time

import boto3


def main():
    count, read, announced = int(sys.argv[1]), 0, 0
    kinesis = boto3.client("kinesis")
    iterators = [kinesis.get_shard_iterator(StreamName="demo", ShardId=shard["ShardId"],
                                            ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
                 for shard in kinesis.list_shards(StreamName="demo")["Shards"]]
    while read < count:
        before = read
        for index, iterator in enumerate(iterators):
            answer = kinesis.get_records(ShardIterator=iterator, Limit=10000)
            iterators[index] = answer["NextShardIterator"]
            for record in answer["Records"]:
                read += len(record["Data"]) > 0
            while read >= announced + 1000:
                announced += 1000
                os.write(1, b"%d\n" % announced)
        if read == before:
            time.sleep(0.2)  # A shard allows 5 reads a second.


main()
