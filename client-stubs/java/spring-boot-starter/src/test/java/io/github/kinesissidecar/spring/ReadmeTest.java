// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar.spring;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The Java code of the README compiles with the imports that it shows. */
class ReadmeTest {
    private static final Pattern JAVA = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final Pattern IMPORTS = Pattern.compile("(?:import [^\n]+;\n|\n)*");

    /** The names that statements of the README take from the reader's app. */
    private static final String APP = """
            abstract class Snippet {
                interface App {
                    void consume(io.github.kinesissidecar.Consumer consumer);
                }

                App app;
                io.github.kinesissidecar.Consumer consumer;
                abstract java.sql.Connection connectionOfThisThread();
                abstract void insert(java.sql.Connection transaction, io.github.kinesissidecar.SidecarRecord record);
                abstract void handle(io.github.kinesissidecar.SidecarRecord record);
                abstract void handleAll(java.util.List<io.github.kinesissidecar.SidecarRecord> records);

                void statements() throws Exception {
            """;

    @TempDir
    Path directory;

    @TestFactory
    List<DynamicTest> code_ofTheReadme_compiles() throws IOException {
        List<String> snippets = JAVA.matcher(Files.readString(Path.of("../README.md"))).results()
                .map(block -> block.group(1)).toList();
        assertThat(snippets).hasSizeGreaterThanOrEqualTo(5);
        return snippets.stream().map(code -> DynamicTest.dynamicTest(code, () -> compile(code))).toList();
    }

    private void compile(String code) throws IOException {
        String unit = code.contains("class ") ? code : inMethod(code);
        Path file = Files.writeString(directory.resolve("Snippet.java"), unit);
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-proc:none", "-d",
                directory.toString(), "-cp", System.getProperty("java.class.path"), file.toString());
        assertThat(status).isZero();
    }

    private static String inMethod(String code) {
        var imports = IMPORTS.matcher(code);
        assertThat(imports.lookingAt()).isTrue();
        return imports.group() + APP + code.substring(imports.end()) + "    }\n}\n";
    }
}
