// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The first example of the README runs. The starter's tests compile the other ones. */
@Timeout(120)
class ReadmeTest {
    @TempDir
    Path directory;

    @Test
    void firstExample_printsTheRecord() throws Exception {
        String example = Files.readString(Path.of("../README.md")).split("```java\n")[1].split("```")[0];
        Path file = Files.writeString(directory.resolve("Orders.java"), example);
        Path classes = Path.of(Consumer.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (RealSidecar sidecar = new RealSidecar(directory)) {
            sidecar.put("customer-7", "{\"total\": 12}");
            ProcessBuilder command = new ProcessBuilder("java", "-cp", classes.toString(), file.toString());
            command.environment().put("KINESIS_SIDECAR_URL", sidecar.url);
            Process app = command.redirectError(ProcessBuilder.Redirect.INHERIT).start();
            try (var output = app.inputReader()) {
                assertEquals("customer-7 {total=12}", output.readLine());
                Eventually.until("the record is settled", () -> sidecar.hasSettled(1));
            } finally {
                app.destroy();
                app.waitFor();
            }
        }
    }
}
