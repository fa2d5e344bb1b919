// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import software.amazon.awssdk.services.kinesis.KinesisClient;
import software.amazon.awssdk.services.kinesis.model.GetRecordsResponse;
import software.amazon.awssdk.services.kinesis.model.Record;
import software.amazon.awssdk.services.kinesis.model.ShardIteratorType;

/**
 * COUNT: reads the stream "demo" by the AWS SDK alone, for a comparison with the package. It takes the endpoint, the
 * region and the credentials from the environment variables of the SDK. Each shard is polled in turn.
 */
public class SdkLoop {
    private static final String STREAM = "demo";
    private static final int LIMIT = 10_000;
    /** A shard allows 5 reads a second. */
    private static final long POLL_MS = 200;

    private final KinesisClient kinesis;
    private final long wanted;
    private long count;
    private long bytes;

    private SdkLoop(KinesisClient kinesis, long wanted) {
        this.kinesis = kinesis;
        this.wanted = wanted;
    }

    public static void main(String[] arguments) throws InterruptedException {
        try (KinesisClient kinesis = KinesisClient.create()) {
            new SdkLoop(kinesis, Long.parseLong(arguments[0])).run();
        }
    }

    private void run() throws InterruptedException {
        List<String> iterators = iterators();
        while (true) {
            long before = count;
            for (int i = 0; i < iterators.size(); i++) {
                String iterator = iterators.get(i);
                GetRecordsResponse response = kinesis.getRecords(request -> request.shardIterator(iterator).limit(LIMIT));
                for (Record record : response.records())
                    if (!take(record))
                        return;
                iterators.set(i, response.nextShardIterator());
            }
            /* A shard that is read to its end has no further iterator. */
            iterators.removeIf(iterator -> iterator == null);
            if (count == before)
                Thread.sleep(POLL_MS);
        }
    }

    private List<String> iterators() {
        List<String> iterators = new ArrayList<>();
        kinesis.listShards(request -> request.streamName(STREAM)).shards()
                .forEach(shard -> iterators.add(kinesis.getShardIterator(request -> request.streamName(STREAM)
                        .shardId(shard.shardId()).shardIteratorType(ShardIteratorType.TRIM_HORIZON)).shardIterator()));
        return iterators;
    }

    /** Uses the data of a record. Returns false after the last one. */
    private boolean take(Record record) {
        bytes += record.data().asByteArrayUnsafe().length;
        if (++count % 1000 == 0)
            System.out.println(count);
        return count < wanted;
    }
}
