// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import kinesis_sidecar.v1.Outcome;
import kinesis_sidecar.v1.Record;
import kinesis_sidecar.v1.SettleRequest;
import kinesis_sidecar.v1.SettleResponse;
import kinesis_sidecar.v1.Settlement;

/** What story.py tells, in Java: what is held, what is settled when and how, and the diary. */
class Story {
    static final int WINDOW = 200;
    static final int MAX_IN_FLIGHT = 2 * WINDOW;
    static final int HEARTBEAT_MS = 100;
    static final int RETRY_MOST_MS = 30;
    static final int RACE_BATCHES = 16;
    static final int RACE_IN_FLIGHT = 100000;
    static final String CLIENT_ID = "scenario";

    record Key(String shard, String sequence) {
        BigInteger number() {
            return new BigInteger(sequence);
        }
    }

    final Random chance;
    final int count, retries, letters;  // The last two in a thousand.
    final PrintStream diary = new PrintStream(new BufferedOutputStream(System.out));
    final Map<Key, String> held = new LinkedHashMap<>();
    final Map<Long, Set<Key>> pending = new HashMap<>();  // By request: what it settles for good.
    final Set<Key> done = new HashSet<>();
    final Set<Key> unsure = new HashSet<>();  // Settled for good in a stream that ended before the answer.
    long request;
    boolean hungUp;

    Story(int seed, int count, int retries, int letters) {
        chance = new Random(seed);
        this.count = count;
        this.retries = retries;
        this.letters = letters;
    }

    /** A line of the diary; no text in it needs to be escaped. */
    void tell(String form, Object... members) {
        diary.print(String.format(form.replace('\'', '"'), members) + "\n");
    }

    void opened() {
        tell("{'event':'opened'}");
    }

    void record(Record record) {
        Key key = new Key(record.getShardId(), record.getSequenceNumber());
        tell("{'event':'record','shard':'%s','sequence':'%s','data':'%s','attempt':%d}", key.shard, key.sequence,
                Base64.getEncoder().encodeToString(record.getData().toByteArray()), record.getAttempt());
        unsure.remove(key);
        if (!done.contains(key) && pending.values().stream().noneMatch(keys -> keys.contains(key)))
            held.put(key, record.getAckId());
    }

    /** What is to be settled now, by `request`; null if nothing is. */
    SettleRequest due(boolean silence) {
        if (held.isEmpty() || (!silence && held.size() < WINDOW))
            return null;
        SettleRequest.Builder settle = SettleRequest.newBuilder();
        Map<String, BigInteger> retried = new HashMap<>();
        request++;
        pending.put(request, new HashSet<>());
        for (Key key : sample(silence ? held.size() : held.size() / 2)) {
            Settlement.Builder settlement = Settlement.newBuilder().setAckId(held.remove(key));
            String outcome = outcome(settlement);
            tell("{'event':'settle','request':%d,'shard':'%s','sequence':'%s','outcome':'%s'}", request, key.shard,
                    key.sequence, outcome);
            if (outcome.equals("retry"))
                retried.merge(key.shard, key.number(), BigInteger::min);
            else
                pending.get(request).add(key);
            settle.addSettlements(settlement);
        }
        held.keySet().removeIf(key -> retried.containsKey(key.shard)
                && key.number().compareTo(retried.get(key.shard)) > 0);
        return settle.build();
    }

    List<Key> sample(int most) {
        List<Key> keys = new ArrayList<>(held.keySet());
        Collections.shuffle(keys, chance);
        return keys.subList(0, most);
    }

    String outcome(Settlement.Builder settlement) {
        int drawn = chance.nextInt(1000);
        if (drawn < retries) {
            settlement.setOutcome(Outcome.OUTCOME_RETRY).setDelayMs(1 + chance.nextInt(RETRY_MOST_MS));
            return "retry";
        }
        boolean dead = drawn < retries + letters;
        settlement.setOutcome(dead ? Outcome.OUTCOME_DEAD_LETTER : Outcome.OUTCOME_ACK);
        return dead ? "dead_letter" : "ack";
    }

    void settled(long request, SettleResponse answer) {
        String failed = answer.getFailedList().stream().map(failure -> '"' + failure.getReason() + '"')
                .collect(Collectors.joining(","));
        String positions = answer.getPositionsList().stream()
                .map(p -> String.format("{'shard_id':'%s','watermark':'%s','checkpoint':'%s'}", p.getShardId(),
                        p.getWatermark(), p.getCheckpoint()))
                .collect(Collectors.joining(","));
        tell("{'event':'settled','request':%d,'ok':%d,'failed':[%s],'positions':[" + positions + "]}", request,
                answer.getOk(), failed);
        done.addAll(pending.remove(request));
    }

    boolean hangsUp() {
        if (hungUp || done.size() < count / 2 || held.isEmpty())
            return false;
        hungUp = true;
        tell("{'event':'disconnected'}");
        held.clear();
        pending.values().forEach(unsure::addAll);
        pending.clear();
        return true;
    }

    boolean isOver(boolean silence) {
        if (!held.isEmpty() || !pending.isEmpty() || done.size() + unsure.size() < count
                || (!unsure.isEmpty() && !silence))
            return false;
        tell("{'event':'finished'}");
        return true;
    }
}
