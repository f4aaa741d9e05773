import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.SerializationFormat;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.avro.Schema;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.file.DataFileWriter;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine, with a sink that names its files as Kafka Connect's S3 sink does.
 *
 * <p>{@code java -cp JARS Engine.java FOLDER PROPERTIES...} runs one engine for each file of
 * properties, until the process is ended. Below FOLDER, each topic has a folder with files
 * {@code topic+0+OFFSET.json}: the events of one batch, one JSON document a line. A tombstone, which
 * has no value, is the line {@code null}. If {@code keys} is set in the properties, a file
 * {@code topic+0+OFFSET.keys.json} has the messages' keys, as with {@code store.kafka.keys}.
 *
 * <p>If {@code avro} is set, files are Avro instead, {@code topic+0+OFFSET.avro}. Avro's records are
 * made of Connect's by the class that the S3 sink has for that (AvroData), in Apicurio's copy. As
 * with the sink, a file has the records of one schema, and tombstones are left out.
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
            boolean keys = settings.containsKey("keys");
            DebeziumEngine<?> engine = settings.containsKey("avro")
                    ? engine(Connect.class, settings, new AvroSink(folder, keys), ended)
                    : engine(Json.class, settings, new JsonSink(folder, keys), ended);
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

    private static <T> DebeziumEngine<ChangeEvent<T, T>> engine(
            Class<? extends SerializationFormat<T>> format,
            Properties settings,
            Sink<T> sink,
            CountDownLatch ended) {
        return DebeziumEngine.create(format)
                .using(settings)
                .notifying(sink)
                .using((success, message, error) -> {
                    // The test reads this log, and must see an engine that gave up.
                    System.err.println("The engine ended: " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    ended.countDown();
                })
                .build();
    }

    /** Writes each batch to a file per topic, or to several. */
    private abstract static class Sink<T>
            implements DebeziumEngine.ChangeConsumer<ChangeEvent<T, T>> {

        private final Path folder;
        private final boolean keys;
        private final String extension;
        private final Map<String, Long> offsets = new HashMap<>();

        Sink(Path folder, boolean keys, String extension) {
            this.folder = folder;
            this.keys = keys;
            this.extension = extension;
        }

        /** The events of a batch, in order, by the files that they go to. */
        abstract List<List<ChangeEvent<T, T>>> files(List<ChangeEvent<T, T>> events);

        /** Gives false if there is nothing to write. */
        abstract boolean fill(Path file, List<ChangeEvent<T, T>> events, boolean ofKeys)
                throws IOException;

        abstract long count(Path file) throws IOException;

        @Override
        public void handleBatch(
                List<ChangeEvent<T, T>> events, RecordCommitter<ChangeEvent<T, T>> committer)
                throws InterruptedException {
            Map<String, List<ChangeEvent<T, T>>> topics = new LinkedHashMap<>();
            for (ChangeEvent<T, T> event : events) {
                topics.computeIfAbsent(event.destination(), topic -> new ArrayList<>()).add(event);
            }
            try {
                for (var topic : topics.entrySet()) {
                    for (var ofFile : files(topic.getValue())) {
                        write(topic.getKey(), ofFile);
                    }
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            for (ChangeEvent<T, T> event : events) {
                committer.markProcessed(event);
            }
            committer.markBatchFinished();
        }

        private void write(String topic, List<ChangeEvent<T, T>> events) throws IOException {
            Path place = Files.createDirectories(folder.resolve(topic));
            long offset = offsets.containsKey(topic) ? offsets.get(topic) : nextOffset(place);
            String name = "%s+0+%010d".formatted(topic, offset);
            if (keys) {
                write(place, name + ".keys" + extension, events, true);
            }
            write(place, name + extension, events, false);
            offsets.put(topic, offset + events.size());
        }

        private void write(Path place, String name, List<ChangeEvent<T, T>> events, boolean ofKeys)
                throws IOException {
            Path hidden = place.resolve("." + name + ".tmp");
            if (!fill(hidden, events, ofKeys)) {
                return;
            }
            // A process that was killed may have left the keys of a file that it did not write.
            Files.move(hidden, place.resolve(name), StandardCopyOption.REPLACE_EXISTING);
        }

        /** The offset after those of the files that an earlier process wrote. */
        private long nextOffset(Path place) throws IOException {
            long next = 0;
            try (var files = Files.newDirectoryStream(place, "*+0+*" + extension)) {
                for (Path file : files) {
                    String name = file.getFileName().toString();
                    if (name.endsWith(".keys" + extension)) {
                        continue;
                    }
                    String digits = name.substring(
                            name.lastIndexOf('+') + 1, name.length() - extension.length());
                    next = Math.max(next, Long.parseLong(digits) + count(file));
                }
            }
            return next;
        }
    }

    private static final class JsonSink extends Sink<String> {

        JsonSink(Path folder, boolean keys) {
            super(folder, keys, ".json");
        }

        @Override
        List<List<ChangeEvent<String, String>>> files(List<ChangeEvent<String, String>> events) {
            return List.of(events);
        }

        @Override
        boolean fill(Path file, List<ChangeEvent<String, String>> events, boolean ofKeys)
                throws IOException {
            try (Writer writer = Files.newBufferedWriter(file)) {
                for (ChangeEvent<String, String> event : events) {
                    String text = ofKeys ? event.key() : event.value();
                    writer.write(text == null ? "null" : text);
                    writer.write('\n');
                }
            }
            return true;
        }

        @Override
        long count(Path file) throws IOException {
            try (var text = Files.lines(file)) {
                return text.count();
            }
        }
    }

    private static final class AvroSink extends Sink<SourceRecord> {

        private final AvroData connect = new AvroData(100);

        AvroSink(Path folder, boolean keys) {
            super(folder, keys, ".avro");
        }

        @Override
        List<List<ChangeEvent<SourceRecord, SourceRecord>>> files(
                List<ChangeEvent<SourceRecord, SourceRecord>> events) {
            List<List<ChangeEvent<SourceRecord, SourceRecord>>> files = new ArrayList<>();
            Object schemas = null;
            for (ChangeEvent<SourceRecord, SourceRecord> event : events) {
                SourceRecord record = event.value();
                if (record.value() == null) {
                    continue;
                }
                // A truncate has no key, so its file has no keys beside it.
                Object schemasNow = Arrays.asList(
                        record.key() == null ? null : record.keySchema(), record.valueSchema());
                if (!schemasNow.equals(schemas)) {
                    schemas = schemasNow;
                    files.add(new ArrayList<>());
                }
                files.get(files.size() - 1).add(event);
            }
            return files;
        }

        @Override
        boolean fill(
                Path file, List<ChangeEvent<SourceRecord, SourceRecord>> events, boolean ofKeys)
                throws IOException {
            SourceRecord first = events.get(0).value();
            if (ofKeys && first.key() == null) {
                return false;
            }
            Schema schema =
                    connect.fromConnectSchema(ofKeys ? first.keySchema() : first.valueSchema());
            try (var writer = new DataFileWriter<>(new GenericDatumWriter<Object>(schema))) {
                writer.create(schema, file.toFile());
                for (ChangeEvent<SourceRecord, SourceRecord> event : events) {
                    SourceRecord record = event.value();
                    writer.append(ofKeys
                            ? connect.fromConnectData(record.keySchema(), record.key())
                            : connect.fromConnectData(record.valueSchema(), record.value()));
                }
            }
            return true;
        }

        @Override
        long count(Path file) throws IOException {
            try (var reader = new DataFileReader<>(file.toFile(), new GenericDatumReader<Object>())) {
                long records = 0;
                for (; reader.hasNext(); reader.next()) {
                    records++;
                }
                return records;
            }
        }
    }
}
