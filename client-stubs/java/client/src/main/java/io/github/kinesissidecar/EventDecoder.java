// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Decodes the messages of the stream: StreamEvent in proto/kinesis_sidecar/v1/record.proto. Two message types do not
 * justify a dependency on protobuf, whose versions conflict with those of the app. A test compares this decoder with
 * the code that protoc generates.
 */
final class EventDecoder {
    private static final int RECORD = 2;
    private static final int VARINT = 0;
    private static final int FIXED64 = 1;
    private static final int BYTES = 2;
    private static final int FIXED32 = 5;

    private static final List<String> IDLE_REASONS = List.of("", "no_data", "no_leases", "flow_controlled", "paused",
            "draining", "throttled", "lane_blocked", "fenced", "no_sessions");
    private static final List<String> SESSION_ENDS = List.of("", "taken_over", "expired", "drained", "closed");

    private enum Kind { TEXT, NUMBER, INSTANT, IDLE_REASON, SESSION_END }

    private record Field(String name, Kind kind) { }

    private record Message(String type, Map<Integer, Field> fields) { }

    /** The events by their field numbers in StreamEvent. The names are those of the JSON stream. */
    private static final Map<Integer, Message> EVENTS = Map.of(
            1, message("session", "session", "client_id", "boot_id", "#max_in_flight", "#max_in_flight_bytes",
                    "#ack_deadline_ms", "#heartbeat_ms"),
            3, message("heartbeat", "#in_flight", "#credit", "?idle_reason"),
            4, message("draining", "@deadline"),
            5, message("lease_returning", "shard_id", "@deadline"),
            6, message("lease_lost", "shard_id"),
            7, message("ended", "!reason"),
            10, message("record_too_large", "shard_id", "#epoch", "sequence_number", "#sub_sequence_number",
                    "partition_key", "#bytes", "#max_message_bytes", "#max_message_bytes_wanted"),
            11, message("barrier", "barrier"));

    /** A text that is the same in most records: one serves for all. */
    private static final class Text {
        byte[] bytes = {};
        String text = "";
    }

    private final ConsumerState state;
    private byte[] bytes;
    private int at;

    /** By field number: batch_id, stream and shard_id. */
    private final Text[] texts = {null, null, new Text(), new Text(), new Text()};

    EventDecoder(ConsumerState state) {
        this.state = state;
    }

    /** Decodes the message in bytes[begin..end). Returns a Delivery or an Event. */
    Object decode(byte[] source, int begin, int end) throws IOException {
        bytes = source;
        at = begin;
        Object item = new Event("unknown", Map.of());
        try {
            while (at < end) {
                int tag = (int) varint();
                if ((tag & 7) != BYTES) {
                    skip(tag, end);
                    continue;
                }
                int fieldEnd = end(end);
                item = tag >>> 3 == RECORD ? record(fieldEnd) : event(tag >>> 3, fieldEnd);
                at = fieldEnd;
            }
        } catch (IndexOutOfBoundsException cut) {
            throw new IOException("a message of the stream is malformed", cut);
        }
        return item;
    }

    private Delivery record(int end) throws IOException {
        Delivery record = new Delivery(state);
        while (at < end) {
            int tag = (int) varint();
            switch (tag & 7) {
                case VARINT -> setNumber(record, tag >>> 3, varint());
                case BYTES -> setBytes(record, tag >>> 3, end(end));
                default -> skip(tag, end);
            }
        }
        return record;
    }

    private static void setNumber(Delivery record, int field, long number) {
        switch (field) {
            case 5 -> record.epoch = number;
            case 7 -> record.subSequenceNumber = number;
            case 9 -> record.arrivedAtMs = number;
            case 10 -> record.attempt = (int) number;
            case 11 -> record.aggregated = number != 0;
            case 13 -> record.redriven = number != 0;
            case 14 -> record.laneNumber = (int) number;
            default -> { }
        }
    }

    /* The JIT compiler inlines each call, and its time counts in a short run: so each call is written once. */
    private void setBytes(Delivery record, int field, int end) {
        switch (field) {
            case 1, 6, 8, 12 -> setOwn(record, field, Arrays.copyOfRange(bytes, at, end));
            case 2, 3, 4 -> setShared(record, field, again(texts[field], end));
            default -> { }
        }
        at = end;
    }

    private static void setOwn(Delivery record, int field, byte[] value) {
        switch (field) {
            case 1 -> record.ackId = value;
            case 6 -> record.sequenceNumber = value;
            case 8 -> record.partitionKey = value;
            default -> record.data = value;
        }
    }

    private static void setShared(Delivery record, int field, String text) {
        switch (field) {
            case 2 -> record.batchId = text;
            case 3 -> record.stream = text;
            default -> record.shardId = text;
        }
    }

    private Event event(int number, int end) throws IOException {
        Message message = EVENTS.get(number);
        if (message == null)
            return new Event("unknown", Map.of("field", (long) number));
        Map<String, Object> members = new LinkedHashMap<>();
        message.fields.values().forEach(field -> members.put(field.name, value(field.kind, 0)));
        while (at < end) {
            int tag = (int) varint();
            Field field = message.fields.get(tag >>> 3);
            if (field == null || (tag & 7) != (field.kind == Kind.TEXT ? BYTES : VARINT))
                skip(tag, end);
            else if (field.kind != Kind.TEXT)
                members.put(field.name, value(field.kind, varint()));
            else {
                int textEnd = end(end);
                members.put(field.name, text(textEnd));
                at = textEnd;
            }
        }
        return new Event(message.type, members);
    }

    private static Object value(Kind kind, long number) {
        return switch (kind) {
            case TEXT -> "";
            case NUMBER -> number;
            case INSTANT -> Instant.ofEpochMilli(number).toString();
            case IDLE_REASON -> word(IDLE_REASONS, number);
            case SESSION_END -> word(SESSION_ENDS, number);
        };
    }

    /** A value that a later sidecar has added is its number. */
    private static String word(List<String> words, long number) {
        return number >= 0 && number < words.size() ? words.get((int) number) : Long.toString(number);
    }

    /** The names of the fields 1, 2 .. with their kinds: # number, @ instant, ? idle reason, ! end of a session. */
    private static Message message(String type, String... names) {
        Map<Integer, Field> fields = new LinkedHashMap<>();
        for (String name : names) {
            int kind = "#@?!".indexOf(name.charAt(0)) + 1;
            fields.put(fields.size() + 1, new Field(kind > 0 ? name.substring(1) : name, Kind.values()[kind]));
        }
        return new Message(type, fields);
    }

    private long varint() throws IOException {
        long value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            byte b = bytes[at++];
            value |= (long) (b & 0x7f) << shift;
            if (b >= 0)
                return value;
        }
        throw new IOException("a message of the stream has a malformed number");
    }

    /** Reads a length. Returns where its bytes end. */
    private int end(int limit) throws IOException {
        long length = varint();
        if (length < 0 || length > limit - at)
            throw new IOException("a message of the stream has a malformed length");
        return at + (int) length;
    }

    private String text(int end) {
        return new String(bytes, at, end - at, StandardCharsets.UTF_8);
    }

    /** Returns the text of the record before if the bytes are equal to it. */
    private String again(Text before, int end) {
        if (!Arrays.equals(before.bytes, 0, before.bytes.length, bytes, at, end)) {
            before.bytes = Arrays.copyOfRange(bytes, at, end);
            before.text = text(end);
        }
        return before.text;
    }

    private void skip(int tag, int limit) throws IOException {
        switch (tag & 7) {
            case VARINT -> varint();
            case FIXED64 -> at += 8;
            case BYTES -> at = end(limit);
            case FIXED32 -> at += 4;
            default -> throw new IOException("a message of the stream has an unknown wire type");
        }
        if (at > limit)
            throw new IOException("a message of the stream is cut");
    }
}
