// SPDX-License-Identifier: Apache-2.0

import io.github.kinesissidecar.Batch;
import io.github.kinesissidecar.Consumer;
import io.github.kinesissidecar.SessionTakenOverException;
import io.github.kinesissidecar.SidecarRecord;
import java.time.Duration;
import java.util.Map;

/** WAY CLIENT_ID CONCURRENCY: reads records in one way, does what each record orders, and prints it. */
public class Scenario {
    private static final int TAKEN_OVER = 3;
    /** Shorter than the slowest handler. */
    private static final Duration ACK_DEADLINE = Duration.ofSeconds(2);
    private static volatile int status;

    /** Leaves a loop. */
    private static class Raised extends Exception {
        private static final long serialVersionUID = 1;
    }

    public static void main(String[] arguments) throws Exception {
        Consumer.Builder builder = Consumer.builder(arguments[1]).concurrency(Integer.parseInt(arguments[2]));
        if (arguments[0].equals("race"))
            builder.maxInFlight(10_000);
        else
            builder.ackDeadline(ACK_DEADLINE);
        Consumer consumer = builder.build();
        exitWithStatus(consumer);
        try (consumer) {
            read(arguments[0], consumer);
        } catch (SessionTakenOverException takenOver) {
            status = TAKEN_OVER;
            print("{\"at\":\"taken_over\"}");
            return;
        } catch (Raised left) {
            return;
        }
        if (stopped)
            print("{\"at\":\"stopped\"}");
    }

    private static volatile boolean stopped;

    private static void read(String way, Consumer consumer) throws Exception {
        switch (way) {
            case "run" -> consumer.run(record -> new Order(record).obey());
            case "each" -> {
                for (SidecarRecord record : consumer)
                    if (!new Order(record).obeyInLoop())
                        break;
            }
            case "batches" -> {
                for (Batch batch : consumer.batches(100, Duration.ofMillis(200)))
                    if (!obeyAll(batch))
                        break;
            }
            case "race" -> race(consumer);
            default -> throw new IllegalArgumentException("WAY must be run, each, batches or race, got " + way);
        }
    }

    private static boolean obeyAll(Batch batch) throws Raised, InterruptedException {
        for (SidecarRecord record : batch)
            if (!new Order(record).obeyInLoop())
                return false;
        return true;
    }

    private static void race(Consumer consumer) {
        long count = 0;
        for (SidecarRecord record : consumer)
            if (++count % 1000 == 0)
                print(Long.toString(count));
    }

    /** SIGTERM stops the consumer; the exit status is ours, not 143. */
    private static void exitWithStatus(Consumer consumer) {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            consumer.stop();
            try {
                main.join();
            } catch (InterruptedException impossible) {
                status = 1;
            }
            Runtime.getRuntime().halt(status);
        }));
    }

    private static void print(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    /** What the data of a record orders. */
    private static class Order {
        final SidecarRecord record;
        final Map<?, ?> order;
        final String what;

        Order(SidecarRecord record) {
            this.record = record;
            order = (Map<?, ?>) record.json();
            what = (String) order.get("do");
        }

        /** In a run. A failure is an exception. */
        void obey() throws Exception {
            print("begin", "");
            String outcome = outcome();
            if (outcome.equals("raise")) {
                print("raise", "");
                throw new Raised();
            }
            if (outcome.equals("break"))
                outcome = "ack";
            print("end", outcome);
            if (outcome.equals("retry"))
                throw new IllegalStateException("fail " + number("n"));
        }

        /** In a loop. Returns false to leave it. */
        boolean obeyInLoop() throws Raised, InterruptedException {
            print("begin", "");
            String outcome = outcome();
            switch (outcome) {
                case "raise" -> {
                    print("raise", "");
                    throw new Raised();
                }
                case "break" -> {
                    print("break", "");
                    return false;
                }
                case "retry" -> record.retry("fail " + number("n"));
                default -> { }
            }
            print("end", outcome);
            return true;
        }

        private String outcome() throws InterruptedException {
            switch (what) {
                case "slow" -> Thread.sleep(number("ms"));
                case "fail" -> {
                    if (record.attempt() <= number("times"))
                        return "retry";
                }
                case "dead_letter" -> {
                    record.deadLetter("asked " + number("n"));
                    return what;
                }
                case "drop" -> {
                    record.drop();
                    return what;
                }
                case "break", "raise" -> {
                    if (record.attempt() == 1)
                        return what;
                }
                default -> { }
            }
            return "ack";
        }

        private long number(String name) {
            return ((Number) order.get(name)).longValue();
        }

        private void print(String at, String outcome) {
            Scenario.print("{\"n\":" + number("n") + ",\"attempt\":" + record.attempt() + ",\"at\":\"" + at + "\""
                    + (outcome.isEmpty() ? "" : ",\"outcome\":\"" + outcome + "\"") + "}");
        }
    }
}
