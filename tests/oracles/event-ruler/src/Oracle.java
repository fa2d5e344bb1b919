// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import software.amazon.event.ruler.JsonRuleCompiler;
import software.amazon.event.ruler.Machine;

/**
 * Reads lines of pattern, partition key as JSON, sequence number, arrival in ms and data as JSON, with tabs between them,
 * and writes what event-ruler finds: 1 (matches), 0, or x (refuses the pattern). A pattern that names a path twice is
 * refused, as the strict mode of event-ruler has it.
 */
public final class Oracle {
    private Oracle() {}

    private static String event(String[] fields) {
        BigDecimal arrival = BigDecimal.valueOf(Long.parseLong(fields[3]), 3);
        return "{\"partitionKey\":" + fields[1] + ",\"sequenceNumber\":\"" + fields[2]
            + "\",\"kinesisSchemaVersion\":\"1.0\",\"approximateArrivalTimestamp\":" + arrival.toPlainString()
            + ",\"data\":" + fields[4] + "}";
    }

    private static char ask(String line) throws Exception {
        String[] fields = line.split("\t", -1);
        if (JsonRuleCompiler.check(fields[0], false) != null) {
            return 'x';
        }
        Machine machine = new Machine();
        try {
            machine.addRule("rule", fields[0]);
        } catch (IOException | RuntimeException e) {
            return 'x';
        }
        return machine.rulesForJSONEvent(event(fields)).isEmpty() ? '0' : '1';
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.append(ask(line)).append('\n');
        }
        new PrintStream(System.out, true, StandardCharsets.UTF_8).print(answers);
    }
}
