// SPDX-License-Identifier: Apache-2.0

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusException;
import io.grpc.stub.BlockingClientCall;
import kinesis_sidecar.v1.ConsumerGrpc;
import kinesis_sidecar.v1.ConsumerGrpc.ConsumerBlockingV2Stub;
import kinesis_sidecar.v1.OpenRequest;
import kinesis_sidecar.v1.Outcome;
import kinesis_sidecar.v1.Record;
import kinesis_sidecar.v1.SettleRequest;
import kinesis_sidecar.v1.StreamEvent;
import kinesis_sidecar.v1.StreamRequest;

/** Client HOST:PORT SEED COUNT RETRIES LETTERS WAY CLIENT: grpc-java. See judge.py. */
public class Client {
    static final OpenRequest OPEN = OpenRequest.newBuilder().setClientId(Story.CLIENT_ID)
            .setMaxInFlight(Story.MAX_IN_FLIGHT).setHeartbeatMs(Story.HEARTBEAT_MS).build();

    final Story story;
    final ConsumerBlockingV2Stub stub;
    final BlockingClientCall<StreamRequest, StreamEvent> up;  // Null when settles are calls.
    final BlockingClientCall<?, StreamEvent> events;

    Client(ManagedChannel channel, Story story, String way) throws Exception {
        this.story = story;
        stub = ConsumerGrpc.newBlockingV2Stub(channel);
        up = way.equals("stream") ? stub.stream() : null;
        events = up != null ? up : stub.watch(OPEN);
        if (up != null)
            up.write(StreamRequest.newBuilder().setOpen(OPEN).build());
    }

    /** One event; returns whether it tells of silence. */
    boolean handle(StreamEvent event) {
        switch (event.getEventCase()) {
            case SESSION -> story.opened();
            case BATCH -> {
                for (Record record : event.getBatch().getRecordsList())
                    story.record(record);
            }
            case ANSWER -> {
                if (!event.getAnswer().hasSettled())
                    throw new IllegalStateException("what is this? " + event);
                story.settled(event.getAnswer().getId(), event.getAnswer().getSettled());
            }
            case HEARTBEAT -> {
                return true;
            }
            default -> throw new IllegalStateException("what is this? " + event);
        }
        return false;
    }

    void settle(boolean silence) throws InterruptedException, StatusException {
        SettleRequest settle = story.due(silence);
        if (settle == null)
            return;
        if (up != null)
            up.write(StreamRequest.newBuilder().setId(story.request).setSettle(settle).build());
        else
            story.settled(story.request, stub.settle(settle));
    }

    /** One stream, to its end; returns whether all is settled. */
    boolean consume() throws InterruptedException, StatusException {
        for (StreamEvent event; (event = events.read()) != null;) {
            boolean silence = handle(event);
            settle(silence);
            if (story.isOver(silence))
                return true;
            if (story.hangsUp())
                return false;
        }
        throw new IllegalStateException("the stream ended");
    }

    /** See story.py: everything is acknowledged, batch by batch, and counted. */
    static void race(ManagedChannel channel) throws Exception {
        ConsumerBlockingV2Stub stub = ConsumerGrpc.newBlockingV2Stub(channel);
        BlockingClientCall<?, StreamEvent> events =
                stub.watch(OpenRequest.newBuilder().setMaxInFlight(Story.RACE_IN_FLIGHT).build());
        SettleRequest.Builder settle = SettleRequest.newBuilder();
        long seen = 0;
        for (StreamEvent event; (event = events.read()) != null;) {
            if (!event.hasBatch())
                continue;
            seen += event.getBatch().getRecordsCount();
            settle.addSettlementsBuilder().setBatchId(event.getBatch().getBatchId()).setOutcome(Outcome.OUTCOME_ACK);
            if (settle.getSettlementsCount() < Story.RACE_BATCHES)
                continue;
            stub.settle(settle.build());
            settle.clear();
            System.out.println(seen);
        }
        throw new IllegalStateException("the stream ended");
    }

    public static void main(String[] args) throws Exception {
        Story story = new Story(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]),
                Integer.parseInt(args[4]));
        if (story.count == 0)
            race(ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build());
        for (boolean over = false; !over;) {
            ManagedChannel channel = ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build();
            over = new Client(channel, story, args[5]).consume();
            channel.shutdownNow();
        }
        story.diary.flush();
    }
}
