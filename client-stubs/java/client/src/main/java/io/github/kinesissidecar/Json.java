// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A JSON reader (RFC 8259), so that the package depends on no library. */
final class Json {
    /** Deeper data could overflow the stack of the thread. */
    private static final int MAX_DEPTH = 500;

    private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?(?:[eE][+-]?[0-9]++)?");

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Returns the value: Map, List, String, BigDecimal, Boolean or null. */
    static Object parse(byte[] data) {
        try {
            return parse(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString());
        } catch (CharacterCodingException notText) {
            throw new IllegalArgumentException("data is not JSON: it is not UTF-8", notText);
        }
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        if (json.peek() != 0 || json.at < text.length())
            throw json.error("the end of the data");
        return value;
    }

    /** Appends the text as a JSON string. Half a surrogate pair becomes a question mark, as the sidecar takes none. */
    static void quote(StringBuilder out, String value) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\')
                out.append('\\').append(c);
            else if (c < ' ')
                out.append(c == 0 ? "?" : String.format("\\u%04x", (int) c));
            else if (!Character.isSurrogate(c))
                out.append(c);
            else if (Character.isHighSurrogate(c) && i + 1 < value.length()
                    && Character.isLowSurrogate(value.charAt(i + 1)))
                out.append(c).append(value.charAt(++i));
            else
                out.append('?');
        }
        out.append('"');
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH)
            throw error("at most " + MAX_DEPTH + " levels");
        return switch (peek()) {
            case '{' -> object(depth);
            case '[' -> array(depth);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new LinkedHashMap<>();
        at++;
        if (skip('}'))
            return members;
        do {
            if (peek() != '"')
                throw error("a member name");
            String name = string();
            expect(':');
            members.put(name, value(depth + 1));
        } while (skip(','));
        expect('}');
        return members;
    }

    private List<Object> array(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
        if (skip(']'))
            return items;
        do
            items.add(value(depth + 1));
        while (skip(','));
        expect(']');
        return items;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        at++;
        while (true) {
            char c = take("a closing quote");
            if (c == '"')
                return out.toString();
            if (c < ' ')
                throw error("no control character");
            out.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() {
        char c = take("an escape");
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> (char) (hex() << 12 | hex() << 8 | hex() << 4 | hex());
            default -> throw error("an escape");
        };
    }

    private int hex() {
        char c = take("a hexadecimal digit");
        int digit = c < 128 ? Character.digit(c, 16) : -1;
        if (digit < 0)
            throw error("a hexadecimal digit");
        return digit;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at))
            throw error("a value");
        at += word.length();
        return value;
    }

    private BigDecimal number() {
        Matcher number = NUMBER.matcher(text).region(at, text.length());
        if (!number.lookingAt())
            throw error("a value");
        at = number.end();
        try {
            return new BigDecimal(number.group());
        } catch (NumberFormatException tooLarge) {
            throw error("a smaller exponent");
        }
    }

    /** Returns the next character that is not white space, or NUL at the end. */
    private char peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0)
            at++;
        return at < text.length() ? text.charAt(at) : 0;
    }

    private char take(String wanted) {
        if (at == text.length())
            throw error(wanted);
        return text.charAt(at++);
    }

    private boolean skip(char c) {
        peek();
        return skipRaw(c);
    }

    private boolean skipRaw(char c) {
        if (at == text.length() || text.charAt(at) != c)
            return false;
        at++;
        return true;
    }

    private void expect(char c) {
        if (!skip(c))
            throw error("'" + c + "'");
    }

    private IllegalArgumentException error(String wanted) {
        return new IllegalArgumentException("data is not JSON: character " + at + " must be " + wanted);
    }
}
