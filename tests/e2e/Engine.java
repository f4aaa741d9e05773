import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.format.Json;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/**
 * Debezium's embedded engine, with a sink that names its files as Kafka Connect's S3 sink does.
 *
 * <p>{@code java -cp JARS Engine.java FOLDER PROPERTIES...} runs one engine for each file of
 * properties, until the process is ended. Below FOLDER, each topic has a folder with files
 * {@code topic+0+OFFSET.json}: the events of one batch, one JSON document a line. A tombstone, which
 * has no value, is the line {@code null}. If {@code keys} is set in the properties, a file
 * {@code topic+0+OFFSET.keys.json} has the messages' keys, as with {@code store.kafka.keys}.
 *
 * <p>A file gets its name when it is complete, and only then is the batch acknowledged. So a process
 * that is killed loses nothing, and repeats what it had not acknowledged: at least once, like Kafka.
 */
public class Engine {

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        List<DebeziumEngine<?>> engines = new ArrayList<>();
        CountDownLatch ended = new CountDownLatch(1);
        for (int at = 1; at < arguments.length; at++) {
            Properties settings = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(arguments[at]))) {
                settings.load(reader);
            }
            DebeziumEngine<?> engine = DebeziumEngine.create(Json.class)
                    .using(settings)
                    .notifying(new Sink(folder, settings.containsKey("keys")))
                    .using((success, message, error) -> {
                        // The test reads this log, and must see an engine that gave up.
                        System.err.println("The engine ended: " + message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        ended.countDown();
                    })
                    .build();
            engines.add(engine);
            new Thread(engine).start();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (DebeziumEngine<?> engine : engines) {
                try {
                    engine.close();
                } catch (IOException | IllegalStateException error) {
                    error.printStackTrace();
                }
            }
        }));
        ended.await();
        System.exit(1);
    }

    /** Writes each batch to one file per topic. */
    private static final class Sink
            implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {

        private final Path folder;
        private final boolean keys;
        private final Map<String, Long> offsets = new HashMap<>();

        Sink(Path folder, boolean keys) {
            this.folder = folder;
            this.keys = keys;
        }

        @Override
        public void handleBatch(
                List<ChangeEvent<String, String>> events,
                RecordCommitter<ChangeEvent<String, String>> committer)
                throws InterruptedException {
            Map<String, List<ChangeEvent<String, String>>> topics = new LinkedHashMap<>();
            for (ChangeEvent<String, String> event : events) {
                topics.computeIfAbsent(event.destination(), topic -> new ArrayList<>()).add(event);
            }
            try {
                for (var topic : topics.entrySet()) {
                    write(topic.getKey(), topic.getValue());
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            for (ChangeEvent<String, String> event : events) {
                committer.markProcessed(event);
            }
            committer.markBatchFinished();
        }

        private void write(String topic, List<ChangeEvent<String, String>> events)
                throws IOException {
            Path place = Files.createDirectories(folder.resolve(topic));
            long offset = offsets.containsKey(topic) ? offsets.get(topic) : nextOffset(place);
            String name = "%s+0+%010d".formatted(topic, offset);
            if (keys) {
                lines(place, name + ".keys.json", events, true);
            }
            lines(place, name + ".json", events, false);
            offsets.put(topic, offset + events.size());
        }

        private void lines(
                Path place, String name, List<ChangeEvent<String, String>> events, boolean ofKeys)
                throws IOException {
            Path hidden = place.resolve("." + name + ".tmp");
            try (Writer writer = Files.newBufferedWriter(hidden)) {
                for (ChangeEvent<String, String> event : events) {
                    String text = ofKeys ? event.key() : event.value();
                    writer.write(text == null ? "null" : text);
                    writer.write('\n');
                }
            }
            // A process that was killed may have left the keys of a file that it did not write.
            Files.move(hidden, place.resolve(name), StandardCopyOption.REPLACE_EXISTING);
        }

        /** The offset after those of the files that an earlier process wrote. */
        private static long nextOffset(Path place) throws IOException {
            long next = 0;
            try (var files = Files.newDirectoryStream(place, "*+0+*.json")) {
                for (Path file : files) {
                    String name = file.getFileName().toString();
                    if (name.endsWith(".keys.json")) {
                        continue;
                    }
                    String digits = name.substring(name.lastIndexOf('+') + 1, name.length() - 5);
                    try (var text = Files.lines(file)) {
                        next = Math.max(next, Long.parseLong(digits) + text.count());
                    }
                }
            }
            return next;
        }
    }
}
