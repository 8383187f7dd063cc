package io.raycommitter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What one task attempt did, under the names of Hadoop's manifest committer; the job adds it up. */
final class TaskStatistics {
    private final ObjectNode all = JsonNodeFactory.instance.objectNode();
    private final ObjectNode counters = all.putObject("counters");
    private final ObjectNode minimums = all.putObject("minimums");
    private final ObjectNode maximums = all.putObject("maximums");
    private final ObjectNode means = all.putObject("meanstatistics");

    TaskStatistics amount(String name, long value) {
        counters.put(name, value);
        minimums.put(name, value);
        maximums.put(name, value);
        means.putObject(name).put("samples", 1).put("sum", value);
        return this;
    }

    /** Adds only to the sum: each statistic makes each manifest longer. */
    TaskStatistics count(String name, long value) {
        counters.put(name, value);
        return this;
    }

    TaskStatistics stage(String name, long millis) {
        counters.put(name, 1);
        minimums.put(name + ".min", millis);
        maximums.put(name + ".max", millis);
        means.putObject(name + ".mean").put("samples", 1).put("sum", millis);
        return this;
    }

    ObjectNode asJson() {
        return all;
    }
}
