// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ThreadFactory;

/**
 * Reads records of a Kinesis stream from the kinesis-sidecar on this machine.
 *
 * <pre>{@code
 * try (Consumer consumer = Consumer.builder("orders").concurrency(16).build()) {
 *     consumer.run(record -> orders.save(parse(record.data())));
 * }
 * }</pre>
 *
 * <p>A consumer is read in one way: {@link #run}, iteration or {@link #batches}. It opens nothing by itself: the first
 * record that is asked for opens the stream. The consumer connects again when the connection is lost.
 */
public interface Consumer extends Iterable<SidecarRecord>, AutoCloseable {
    /** The default of {@link #batches()}: records of a batch. */
    int DEFAULT_BATCH_RECORDS = 500;

    /** The default of {@link #batches()}: time from the first record of a batch on. */
    Duration DEFAULT_BATCH_WAIT = Duration.ofSeconds(1);

    /** Begins a consumer. Its client id has up to 64 characters of A-Z a-z 0-9 . _ - and belongs to one process. */
    static Builder builder(String clientId) {
        return new Builder(clientId);
    }

    /**
     * Calls the handler with each record, with as many threads as the concurrency. Records of one lane, and so those of
     * one partition key, are handled one after the other, in order. A normal return acknowledges the record, and an
     * exception retries it.
     *
     * <p>The run ends by {@link #stop}, {@link #close}, SIGTERM, SIGINT, or an interrupt of the calling thread. It
     * waits for the running handlers, sends the acknowledgements and closes the session.
     *
     * @throws SidecarException if the sidecar refuses the stream or a request
     * @throws SessionTakenOverException if another process opened a stream with the same client id
     */
    void run(Handler handler);

    /**
     * Hands out one record after the other. A record that has no outcome is acknowledged when the app asks for the next
     * one. Leaving the loop settles nothing: the next loop hands its record out again, unless it has an outcome by then,
     * and {@link #close} gives it back. A loop that begins ends the one before. The loop ends by {@link #stop}, {@link
     * #close}, or an interrupt.
     */
    @Override
    Iterator<SidecarRecord> iterator();

    /** Hands out batches of up to 500 records, 1 s from the first record of a batch on. */
    default Iterable<Batch> batches() {
        return batches(DEFAULT_BATCH_RECORDS, DEFAULT_BATCH_WAIT);
    }

    /**
     * Hands out batches of up to maxRecords records, maxWait from the first record of a batch on. The records of a
     * batch that have no outcome are acknowledged when the app asks for the next batch. Leaving the loop is as with
     * {@link #iterator}.
     */
    Iterable<Batch> batches(int maxRecords, Duration maxWait);

    /** Returns the number of settlements whose session had ended. Their records are redelivered. */
    long stale();

    /** Returns the number of settlements that the sidecar refused one by one. */
    long failed();

    /** Hands out no further records. A run waits for its handlers and ends; an iteration ends. */
    void stop();

    /**
     * Stops, waits for a run, sends the acknowledgements and closes the session. The sidecar redelivers all records
     * without an outcome at once.
     */
    @Override
    void close();

    /** The options of a consumer. */
    final class Builder {
        final Options options;

        Builder(String clientId) {
            options = new Options(clientId);
        }

        /**
         * Sets the address, http://HOST:PORT or unix:/PATH. The default is the variable KINESIS_SIDECAR_URL, else
         * http://127.0.0.1:8990.
         */
        public Builder url(String url) {
            options.address = Address.parse(url);
            return this;
        }

        /**
         * Sets the file with the bearer token, which is read for every connection and every settle request. The default
         * is the variable KINESIS_SIDECAR_TOKEN_FILE, else no token.
         */
        public Builder tokenFile(Path file) {
            options.tokenFile = file;
            return this;
        }

        /**
         * Sets the number of handlers that run at the same time, from 1 to 10000. The default is 1. Above 1 the
         * ordering is by partition key unless it is set.
         */
        public Builder concurrency(int concurrency) {
            options.concurrency = (int) Options.within("concurrency", concurrency, 1, 10_000);
            return this;
        }

        /** Sets the maximum of records that are delivered and not settled, from 1 to 100000. The default is 1000. */
        public Builder maxInFlight(int records) {
            options.maxInFlight = (int) Options.within("max_in_flight", records, 1, 100_000);
            return this;
        }

        /** Sets the maximum bytes that are delivered and not settled. The default is 16 MiB. */
        public Builder maxInFlightBytes(long bytes) {
            options.maxInFlightBytes = Options.within("max_in_flight_bytes", bytes, 1, Long.MAX_VALUE);
            return this;
        }

        /**
         * Sets the time after which a record that is neither settled nor extended is redelivered, from 100 ms to 12 h.
         * The default is 60 s.
         */
        public Builder ackDeadline(Duration deadline) {
            options.ackDeadlineMs = Options.within("ack_deadline (ms)", deadline.toMillis(), 100, Options.MAX_DELAY_MS);
            return this;
        }

        /**
         * Sets for how long after its delivery the package extends the ack deadline of a record. The default is 1 h.
         */
        public Builder maxProcessing(Duration duration) {
            options.maxProcessing = duration;
            return this;
        }

        /**
         * Sets how long an acknowledgement waits for others, to share a request with them: 60 s at most. The default is
         * 0.1 s.
         */
        public Builder ackInterval(Duration interval) {
            Options.within("ack_interval (ms)", interval.toMillis(), 0, 60_000);
            options.ackInterval = interval;
            return this;
        }

        /** Sets the ordering. The default is by shard, or by partition key with a share or a concurrency above 1. */
        public Builder ordering(Ordering ordering) {
            options.ordering = ordering;
            return this;
        }

        /**
         * Sets the number of lanes of each shard, from 1 to 64, for an ordering by partition key. The default is 64.
         */
        public Builder lanes(int lanes) {
            options.lanes = (int) Options.within("lanes", lanes, 1, Options.MAX_LANES);
            return this;
        }

        /** Sets the ids of the shards to read, 64 at most. The default is all. */
        public Builder shards(List<String> shards) {
            options.shards = List.copyOf(shards);
            return this;
        }

        /**
         * Sets the part of the partition keys to read, a decimal like "0.05". Consumers without a share get all other
         * keys; they must have the same ordering and lanes. The default is none.
         */
        public Builder share(String share) {
            options.share = share;
            return this;
        }

        /** Sets which keys are in the share: another salt, other keys. */
        public Builder salt(String salt) {
            options.salt = salt;
            return this;
        }

        /**
         * Sets the pattern of the records to read, as JSON. All other records count as settled. All open consumers of a
         * subscription have the same filter. The default is none.
         */
        public Builder filter(String pattern) {
            options.filter = pattern;
            return this;
        }

        /** Sets the name of the subscription. It is needed if the sidecar has several. */
        public Builder subscription(String subscription) {
            options.subscription = subscription;
            return this;
        }

        /**
         * Sets the time of silence after which the sidecar sends a heartbeat, from 100 ms to 60 s. The default is 10 s.
         * The consumer connects again when three heartbeats are missing.
         */
        public Builder heartbeat(Duration heartbeat) {
            options.heartbeatMs = Options.within("heartbeat (ms)", heartbeat.toMillis(), 100, 60_000);
            return this;
        }

        /** Sets the listener of control events. An exception of it ends the consumer. */
        public Builder onEvent(EventListener listener) {
            options.listener = listener;
            return this;
        }

        /**
         * Sets the factory of the threads that call handlers. The default makes virtual threads on Java 24 and later,
         * where code that synchronizes does not pin them, and platform threads before.
         */
        public Builder threadFactory(ThreadFactory factory) {
            options.threadFactory = factory;
            return this;
        }

        /**
         * Sets whether a run ends at SIGTERM and SIGINT, by a shutdown hook of the virtual machine. The default is
         * true. Without it the app calls {@link Consumer#stop} or {@link Consumer#close} then.
         */
        public Builder shutdownHook(boolean enabled) {
            options.shutdownHook = enabled;
            return this;
        }

        /** Builds the consumer. It opens nothing. */
        public Consumer build() {
            return new SidecarConsumer(options.copy());
        }
    }
}
