// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.UnknownFieldSet;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import kinesis_sidecar.v1.Record;
import kinesis_sidecar.v1.StreamEvent;
import org.junit.jupiter.api.Test;

class EventDecoderTest {
    private static final List<String> NOT_ON_HTTP = List.of("record", "batch", "answer");

    private final EventDecoder decoder = new EventDecoder(new ConsumerState(new Options("test").copy()));

    @Test
    void record_withAllFields_isDecoded() throws IOException {
        Record sent = Record.newBuilder().setAckId("a").setBatchId("b").setStream("s").setShardId("shard").setEpoch(3)
                .setSequenceNumber("49680587343713021537462147092419872691343867675519483906").setSubSequenceNumber(7)
                .setPartitionKey("key \u00fc \ud83d\ude00")
                .setApproximateArrivalTimestamp(1_790_000_000_123L).setAttempt(300)
                .setAggregated(true).setData(ByteString.copyFrom(new byte[] {1, 0, -1})).setRedriven(true).setLane(63)
                .setUnknownFields(unknown()).build();
        Delivery record = (Delivery) decode(StreamEvent.newBuilder().setRecord(sent).build());

        assertEquals(sent.getAckId(), record.ackId());
        assertEquals(sent.getBatchId(), record.batchId);
        assertEquals(sent.getStream(), record.stream());
        assertEquals(sent.getShardId(), record.shardId());
        assertEquals(sent.getEpoch(), record.epoch());
        assertEquals(sent.getSequenceNumber(), record.sequenceNumber());
        assertEquals(sent.getSubSequenceNumber(), record.subSequenceNumber());
        assertEquals(sent.getPartitionKey(), record.partitionKey());
        assertEquals(sent.getApproximateArrivalTimestamp(), record.arrivedAt().toEpochMilli());
        assertEquals(sent.getAttempt(), record.attempt());
        assertTrue(record.aggregated());
        assertTrue(record.redriven());
        assertEquals(sent.getLane(), record.laneNumber);
        assertArrayEquals(sent.getData().toByteArray(), record.data());
    }

    @Test
    void record_ofTheSameBatch_sharesItsTexts() throws IOException {
        Record message = Record.newBuilder().setBatchId("b").setShardId("s").build();
        StreamEvent sent = StreamEvent.newBuilder().setRecord(message).build();
        Delivery first = (Delivery) decode(sent);
        Delivery second = (Delivery) decode(sent);
        assertSame(first.batchId, second.batchId);
        assertSame(first.shardId, second.shardId);
    }

    @Test
    void events_ofTheProto_haveTheNamesOfTheirFields() throws IOException {
        for (FieldDescriptor field : StreamEvent.getDescriptor().getFields()) {
            if (NOT_ON_HTTP.contains(field.getName()))
                continue;
            Message.Builder message = StreamEvent.newBuilder().newBuilderForField(field);
            for (FieldDescriptor member : field.getMessageType().getFields())
                message.setField(member, sample(member));
            message.setUnknownFields(unknown());
            StreamEvent sent = StreamEvent.newBuilder().setField(field, message.build()).build();

            Event event = (Event) decode(sent);
            assertEquals(field.getName(), event.type());
            for (FieldDescriptor member : field.getMessageType().getFields())
                assertEquals(expected(member), event.members().get(member.getName()), field + "." + member);
            assertEquals(field.getMessageType().getFields().size(), event.members().size());
        }
    }

    @Test
    void event_ofALaterSidecar_isUnknown() throws IOException {
        UnknownFieldSet later = UnknownFieldSet.newBuilder()
                .addField(99, UnknownFieldSet.Field.newBuilder().addLengthDelimited(ByteString.EMPTY).build()).build();
        Event event = (Event) decode(StreamEvent.newBuilder().setUnknownFields(later).build());
        assertEquals("unknown", event.type());
        assertEquals(99, event.number("field"));
    }

    @Test
    void damagedBytes_areAnIoException_orAMessage() {
        Record message = Record.newBuilder().setAckId("abc").setBatchId("b").setEpoch(1L << 60)
                .setData(ByteString.copyFromUtf8("some data")).build();
        byte[] whole = StreamEvent.newBuilder().setRecord(message).build().toByteArray();
        Random random = new Random(1);
        for (int i = 0; i < 20_000; i++) {
            byte[] damaged = Arrays.copyOf(whole, 1 + random.nextInt(whole.length));
            damaged[random.nextInt(damaged.length)] = (byte) random.nextInt(256);
            try {
                decoder.decode(damaged, 0, damaged.length);
            } catch (IOException malformed) {
                // The connection is dropped. Any other exception fails this test.
            }
        }
        assertThrows(IOException.class, () -> decoder.decode(whole, 0, whole.length - 1));
    }

    private Object decode(StreamEvent event) throws IOException {
        byte[] bytes = event.toByteArray();
        return decoder.decode(bytes, 0, bytes.length);
    }

    private static UnknownFieldSet unknown() {
        return UnknownFieldSet.newBuilder().addField(1000, UnknownFieldSet.Field.newBuilder().addVarint(1).addFixed32(2)
                .addFixed64(3).addLengthDelimited(ByteString.copyFromUtf8("later")).build()).build();
    }

    private static Object sample(FieldDescriptor field) {
        return switch (field.getJavaType()) {
            case STRING -> "text of " + field.getName();
            case INT -> 300;
            case LONG -> 1_790_000_000_123L;
            case ENUM -> field.getEnumType().findValueByNumber(1);
            default -> throw new IllegalStateException(field.toString());
        };
    }

    private static Object expected(FieldDescriptor field) {
        if (field.getName().equals("deadline"))
            return "2026-09-21T14:13:20.123Z";
        if (field.getJavaType() != FieldDescriptor.JavaType.ENUM)
            return sample(field) instanceof Number number ? number.longValue() : sample(field);
        String zero = field.getEnumType().findValueByNumber(0).getName();
        String prefix = zero.substring(0, zero.length() - "UNSPECIFIED".length());
        return field.getEnumType().findValueByNumber(1).getName().substring(prefix.length())
                .toLowerCase(java.util.Locale.ROOT);
    }
}
