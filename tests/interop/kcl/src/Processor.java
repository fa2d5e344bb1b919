// SPDX-License-Identifier: Apache-2.0
import java.util.concurrent.TimeUnit;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.PreparedCheckpointer;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** An app: it notes what it gets, works work_us on each record, and checkpoints after each batch, or oftener. */
final class Processor implements ShardRecordProcessor {
    private final Diary diary;
    private final String stream;
    private final int workUs;
    private final int saveEvery;
    private final int prepareMs;
    private String shard;
    private int seen;

    /** stream is what the diary says before a shard. */
    Processor(Diary diary, String stream, int workUs, int saveEvery, int prepareMs) {
        this.diary = diary;
        this.stream = stream;
        this.workUs = workUs;
        this.saveEvery = saveEvery;
        this.prepareMs = prepareMs;
    }

    @Override
    public void initialize(InitializationInput input) {
        shard = stream + input.shardId();
        diary.tell("began", "shard", shard, "sequence", input.extendedSequenceNumber().sequenceNumber());
    }

    @Override
    public void processRecords(ProcessRecordsInput input) {
        for (KinesisClientRecord record : input.records()) {
            diary.tell("record", "shard", shard, "sequence", record.sequenceNumber(), "key", record.partitionKey(),
                    "data", Member.text(record.data()));
            sleep(workUs);
            seen++;
            if (saveEvery > 0 && seen % saveEvery == 0) {
                save(input.checkpointer(), record);
            }
        }
        if (!input.records().isEmpty()) {
            save(input.checkpointer(), input.records().get(input.records().size() - 1));
        }
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
        diary.tell("ended", "shard", shard, "reason", "LEASE_LOST");
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
        diary.tell("ended", "shard", shard, "reason", "SHARD_END");
        save(input.checkpointer(), null);
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {
        diary.tell("ended", "shard", shard, "reason", "REQUESTED");
    }

    /** Checkpoints, after a user record of an aggregate within that; null is the end of the shard. */
    private void save(RecordProcessorCheckpointer checkpointer, KinesisClientRecord last) {
        String sequence = last == null ? "SHARD_END" : last.sequenceNumber();
        try {
            if (last == null) {
                checkpointer.checkpoint();
            } else if (prepareMs == 0) {
                checkpointer.checkpoint(sequence, last.subSequenceNumber());
            } else {
                PreparedCheckpointer prepared = checkpointer.prepareCheckpoint(sequence, last.subSequenceNumber(),
                        new byte[] {1, 2});
                sleep(prepareMs * 1000);
                prepared.checkpoint();
            }
            diary.tell("saved", "shard", shard, "sequence", sequence);
        } catch (Exception err) {
            diary.tell("unsaved", "shard", shard, "sequence", sequence, "reason", err.toString());
        }
    }

    private static void sleep(int us) {
        try {
            TimeUnit.MICROSECONDS.sleep(us);
        } catch (InterruptedException err) {
            Thread.currentThread().interrupt();
        }
    }
}
