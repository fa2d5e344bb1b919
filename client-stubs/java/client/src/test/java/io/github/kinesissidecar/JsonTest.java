// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void values_areParsed() {
        List<Object> list = List.of(new BigDecimal("-1.50e3"), true, false, "x\n\u20ac\ud83d\ude00\"");
        assertEquals(Map.of("a", list, "b", Map.of()),
                Json.parse(" {\"a\" : [-1.50e3, true,false, \"x\\n\\u20ac\\ud83d\\ude00\\\"\"] , \"b\":{}}\n"));
        assertNull(Json.parse("null"));
        assertEquals(new BigDecimal("12345678901234567890123"), Json.parse("12345678901234567890123"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "{", "[1,]", "{\"a\":}", "{a:1}", "01", "1.", "-", "+1", "1e", "tru", "\"",
        "\"\\x\"", "\"\\u12\"", "\"\n\"", "1 2", "[1}", "nul", "1\0", "1e99999999999"})
    void data_thatIsNotJson_isRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void data_thatIsTooDeepOrNotUtf8_isRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(100_000)));
        assertThrows(IllegalArgumentException.class, () -> Json.parse(new byte[] {'"', (byte) 0xff, '"'}));
    }

    @Test
    void text_isQuoted() {
        StringBuilder out = new StringBuilder();
        Json.quote(out, "a\"\\\n\0\ud83d\ude00\ud83d");
        assertEquals("\"a\\\"\\\\\\u000a?\ud83d\ude00?\"", out.toString());
    }
}
