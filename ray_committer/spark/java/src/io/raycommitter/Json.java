package io.raycommitter;

import java.util.StringJoiner;

/** Writes one JSON object, key by key, so that the jar needs no JSON library to write. */
final class Json {
    private final StringJoiner members = new StringJoiner(",", "{", "}");

    Json put(String key, String value) {
        return putRaw(key, quote(value));
    }

    Json put(String key, long value) {
        return putRaw(key, Long.toString(value));
    }

    Json put(String key, boolean value) {
        return putRaw(key, Boolean.toString(value));
    }

    Json put(String key, Iterable<String> values) {
        StringJoiner quoted = arrayJoiner();
        values.forEach(value -> quoted.add(quote(value)));
        return putRaw(key, quoted.toString());
    }

    /** Puts an array whose items are JSON text already. */
    Json putRawItems(String key, Iterable<String> items) {
        StringJoiner array = arrayJoiner();
        items.forEach(array::add);
        return putRaw(key, array.toString());
    }

    Json putRaw(String key, String json) {
        members.add(quote(key) + ":" + json);
        return this;
    }

    String text() {
        return members.toString();
    }

    /** Adds a member, whose value is JSON text, to the text of an object that has members. */
    static String with(String object, String key, String json) {
        return object.substring(0, object.lastIndexOf('}')) + "," + quote(key) + ":" + json + "}";
    }

    private static StringJoiner arrayJoiner() {
        return new StringJoiner(",", "[", "]");
    }

    /** Quotes text; surrogates are escaped, so that no name makes the text invalid UTF-8. */
    static String quote(String text) {
        StringBuilder out = new StringBuilder(text.length() + 2).append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
