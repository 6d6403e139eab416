// Transactions by Java's kafka-clients, of any version that has them. Prints a line for each claim.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions extends Claims {
    static final int PARTITIONS = 3;
    static final int HALF = 150;
    static final int AT_ONCE = 15;
    static final String NAME = "java-transactions-" + System.nanoTime();

    public static void main(String[] arguments) throws Exception {
        connect(arguments[0]);
        try (Admin admin = Admin.create(COMMON)) {
            claim("what is committed is read, and what is aborted is not", () -> committed(admin));
            claim("records are processed once, with their offsets", () -> processed(admin));
            claim("a twin fences the producer before it", () -> fenced(admin));
            claim("nothing is committed after the timeout", () -> timedOut(admin));
            claim("transactions are listed and described, and their producers fenced", () -> tools(admin));
            claim("records are written and read over the death of a leader", () -> copied(admin));
        }
    }

    static Object committed(Admin admin) throws Exception {
        String topic = create(admin, "committed");
        try (var producer = producer(topic, 60_000)) {
            for (String value : List.of("first", "aborted", "last")) {
                write(producer, topic, value);
                if (value.equals("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        same(values(topic, 6, "read_committed"), List.of("first", "first", "first", "last", "last", "last"));
        return same(values(topic, 9, "read_uncommitted").size(), 9);
    }

    /** Every second transaction is aborted, and its records are read again. */
    static Object processed(Admin admin) throws Exception {
        String source = create(admin, "source"), target = create(admin, "target");
        try (var producer = producer(source, 60_000)) {
            producer.beginTransaction();
            for (int number = 0; number < HALF; number++)
                producer.send(new ProducerRecord<>(source, number % PARTITIONS, "", "value-" + number));
            producer.commitTransaction();
        }
        var settings = Map.<String, Object>of("group.id", source, "max.poll.records", AT_ONCE);
        try (var producer = producer(target, 60_000); var consumer = consumer("read_committed", settings)) {
            consumer.subscribe(List.of(source));
            int[] done = {0, 0};
            until(() -> {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) return done[0] == HALF;
                producer.beginTransaction();
                var ends = new TreeMap<Integer, Long>();
                for (var each : records) {
                    producer.send(new ProducerRecord<>(target, each.partition(), "", each.value()));
                    ends.put(each.partition(), each.offset() + 1);
                }
                var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
                ends.forEach((number, end) ->
                        offsets.put(new TopicPartition(source, number), new OffsetAndMetadata(end)));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (done[1]++ % 2 == 0) {
                    producer.commitTransaction();
                    done[0] += records.count();
                } else {
                    producer.abortTransaction();
                    var committed = consumer.committed(consumer.assignment());
                    committed.forEach((partition, offset) ->
                            consumer.seek(partition, offset == null ? 0 : offset.offset()));
                }
                return done[0] == HALF;
            });
        }
        var expected = IntStream.range(0, HALF).mapToObj(number -> "value-" + number).sorted().toList();
        return same(values(target, HALF, "read_committed"), expected);
    }

    static Object fenced(Admin admin) throws Exception {
        String topic = create(admin, "fenced");
        try (var first = producer(topic, 60_000)) {
            write(first, topic, "first");
            first.flush();
            try (var second = producer(topic, 60_000)) {
                same(refused(first::commitTransaction) instanceof ProducerFencedException, true);
                write(second, topic, "second");
                second.commitTransaction();
            }
        }
        return same(values(topic, 3, "read_committed"), List.of("second", "second", "second"));
    }

    static Object timedOut(Admin admin) throws Exception {
        String topic = create(admin, "late");
        try (var late = producer(topic, 1_000)) {
            write(late, topic, "late");
            late.flush();
            until(() -> state(admin, topic) == TransactionState.COMPLETE_ABORT);
            refused(late::commitTransaction);
        }
        try (var next = producer(topic, 60_000)) {
            write(next, topic, "next");
            next.commitTransaction();
        }
        return same(values(topic, 3, "read_committed"), List.of("next", "next", "next"));
    }

    static Object tools(Admin admin) throws Exception {
        String topic = create(admin, "tools");
        var partition = new TopicPartition(topic, 0);
        try (var producer = producer(topic, 60_000)) {
            write(producer, topic, "open");
            producer.flush();
            var listed = admin.listTransactions().all().get();
            same(listed.stream().anyMatch(each -> each.transactionalId().equals(topic)), true);
            var described = admin.describeTransactions(List.of(topic)).all().get().get(topic);
            same(described.state(), TransactionState.ONGOING);
            same(described.topicPartitions().size(), PARTITIONS);
            var open = admin.describeProducers(List.of(partition)).all().get().get(partition);
            same(open.activeProducers().get(0).currentTransactionStartOffset().getAsLong(), 0L);
            same(end(admin, partition, IsolationLevel.READ_COMMITTED), 0L);
            same(end(admin, partition, IsolationLevel.READ_UNCOMMITTED), 1L);
            admin.fenceProducers(List.of(topic)).all().get();
            return same(refused(producer::commitTransaction) instanceof ProducerFencedException, true);
        }
    }

    /** The runner compares what is read. Before each transaction an equal one is aborted. */
    static Object copied(Admin admin) throws Exception {
        String topic = create(admin, "copied");
        var settings = Map.<String, Object>of("group.id", topic);
        try (var producer = producer(topic, 60_000); var consumer = consumer("read_committed", settings)) {
            consumer.subscribe(List.of(topic));
            for (int half = 0; half < 2; half++) {
                for (int from = half * HALF; from < (half + 1) * HALF; from += AT_ONCE) {
                    boolean dies = half == 1 && from == HALF;
                    for (boolean commits : new boolean[] {false, true}) {
                        producer.beginTransaction();
                        for (int number = from; number < from + AT_ONCE; number++) {
                            if (dies && commits && number == from + 5) {
                                System.out.println("kill the leader of " + topic);
                                System.in.read();
                            }
                            producer.send(record(topic, number));
                        }
                        producer.flush();
                        if (commits) producer.commitTransaction();
                        else producer.abortTransaction();
                    }
                }
                for (var each : read(consumer, HALF)) {
                    var header = each.headers().iterator().next();
                    String text = header.key() + "=" + new String(header.value());
                    System.out.println("read " + each.partition() + " " + each.key() + " " + text + " " + each.value());
                }
            }
        }
        return null;
    }

    static ProducerRecord<String, String> record(String topic, int number) {
        var record = new ProducerRecord<>(topic, number % PARTITIONS, "key-" + number, "value-" + number);
        record.headers().add("number", ("" + number).getBytes());
        return record;
    }

    static String create(Admin admin, String name) throws Exception {
        String topic = NAME + "-" + name;
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 3))).all().get();
        return topic;
    }

    /** A producer that has its transactional id. */
    static KafkaProducer<String, String> producer(String id, int timeoutMs) {
        var settings = with(Map.of("transactional.id", id, "transaction.timeout.ms", timeoutMs));
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(String isolation, Map<String, Object> more) {
        var settings = with(Map.of(
                "isolation.level", isolation, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** Begins a transaction with a record in each partition. */
    static void write(KafkaProducer<String, String> producer, String topic, String value) {
        producer.beginTransaction();
        for (int number = 0; number < PARTITIONS; number++)
            producer.send(new ProducerRecord<>(topic, number, "", value));
        producer.flush();
    }

    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer, int wanted)
            throws Exception {
        var found = new ArrayList<ConsumerRecord<String, String>>();
        until(() -> {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            return found.size() >= wanted;
        });
        return found;
    }

    /** The values that an isolation level shows, sorted. */
    static List<String> values(String topic, int wanted, String isolation) throws Exception {
        try (var consumer = consumer(isolation, Map.of())) {
            consumer.assign(IntStream.range(0, PARTITIONS).mapToObj(each -> new TopicPartition(topic, each)).toList());
            return read(consumer, wanted).stream().map(ConsumerRecord::value).sorted().toList();
        }
    }

    static TransactionState state(Admin admin, String id) throws Exception {
        return admin.describeTransactions(List.of(id)).all().get().get(id).state();
    }

    static long end(Admin admin, TopicPartition partition, IsolationLevel isolation) throws Exception {
        var options = new ListOffsetsOptions(isolation);
        return admin.listOffsets(Map.of(partition, OffsetSpec.latest()), options).all().get().get(partition).offset();
    }

    static KafkaException refused(Runnable work) {
        try {
            work.run();
        } catch (KafkaException error) {
            return error;
        }
        throw new IllegalStateException("it was not refused");
    }
}
