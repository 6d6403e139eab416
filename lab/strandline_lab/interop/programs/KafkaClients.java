// Java's kafka-clients: topics, records, groups, and administration. Prints a line for each claim.

import java.io.FileReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class KafkaClients {
    static final int RECORDS = 100;
    static final int SECONDS = 60;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final String TOPIC = "java-" + System.nanoTime();
    static final Map<String, Object> COMMON = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        String folder = System.getenv("INTEROP_SECURITY");
        if (folder != null) {
            var security = new Properties();
            security.load(new FileReader(folder + "/java.properties"));
            security.forEach((name, value) -> COMMON.put((String) name, value));
        }
        COMMON.put("bootstrap.servers", arguments[0]);
        System.out.println("version " + AppInfoParser.getVersion());
        try (Admin admin = Admin.create(COMMON)) {
            claim("topics are created and described", () -> {
                admin.createTopics(List.of(new NewTopic(TOPIC, Optional.of(3), Optional.of((short) 3)))).all().get();
                var topic = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC);
                return same(topic.partitions().stream().map(each -> each.replicas().size()).toList(), List.of(3, 3, 3));
            });
            claim("batches of each codec are acknowledged, idempotent", () -> {
                for (String codec : CODECS) produce(codec, RECORDS);
                return null;
            });
            claim("a group reads, commits, and goes on where it was", () -> {
                same(read(TOPIC, CODECS.size() * RECORDS).size(), CODECS.size() * RECORDS);
                produce("none", 1);
                return same(read(TOPIC, 1).size(), 1);
            });
            for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor"))
                claim("two members share the partitions, " + assignor, () -> share(assignor));
            claim("offsets are listed, also by time", () -> {
                var partition = new TopicPartition(TOPIC, 0);
                var earliest = admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get();
                same(earliest.get(partition).offset(), 0L);
                var timed = admin.listOffsets(Map.of(partition, OffsetSpec.forTimestamp(1))).all().get();
                return same(timed.get(partition).offset(), 0L);
            });
            claim("groups are listed, described and deleted", () -> {
                var listed = admin.listConsumerGroups().all().get();
                same(listed.stream().anyMatch(each -> each.groupId().equals(TOPIC)), true);
                var group = admin.describeConsumerGroups(List.of(TOPIC)).all().get().get(TOPIC);
                same(group.state().toString(), "Empty");
                var committed = admin.listConsumerGroupOffsets(TOPIC).partitionsToOffsetAndMetadata().get();
                long sum = committed.values().stream().mapToLong(each -> each.offset()).sum();
                same(sum, CODECS.size() * RECORDS + 1L);
                return admin.deleteConsumerGroups(List.of(TOPIC)).all().get();
            });
            claim("configs are changed and described", () -> {
                var topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
                var entry = new ConfigEntry("retention.ms", "3600000");
                admin.incrementalAlterConfigs(
                        Map.of(topic, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
                until(() -> admin.describeConfigs(List.of(topic)).all().get().get(topic)
                        .get("retention.ms").value().equals("3600000"));
                var broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
                var found = admin.describeConfigs(List.of(broker)).all().get().get(broker);
                return same(found.get("num.partitions").value(), "1");
            });
            claim("the cluster and its log dirs are described", () -> {
                same(admin.describeCluster().nodes().get().size(), 3);
                return same(admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get().size(), 3);
            });
            claim("producers are described", () -> admin.describeProducers(
                    List.of(new TopicPartition(TOPIC, 0))).all().get());
            claim("partitions are added, records deleted", () -> {
                admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(5))).all().get();
                var partition = new TopicPartition(TOPIC, 0);
                var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(10)));
                return same(deleted.lowWatermarks().get(partition).get().lowWatermark(), 10L);
            });
            claim("preferred leaders are elected", () -> {
                var partition = new TopicPartition(TOPIC, 0);
                var elected = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get();
                var error = elected.get(partition);
                return same(error.isEmpty() || error.get() instanceof ElectionNotNeededException, true);
            });
            claim("a partition moves to other replicas", () -> {
                var partition = new TopicPartition(TOPIC, 0);
                var wanted = List.of(3, 1);
                var move = Optional.of(new NewPartitionReassignment(wanted));
                admin.alterPartitionReassignments(Map.of(partition, move)).all().get();
                until(() -> admin.listPartitionReassignments().reassignments().get().isEmpty());
                until(() -> admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC)
                        .partitions().get(0).replicas().stream().map(Node::id).toList().equals(wanted));
                return null;
            });
            claim("topics are deleted", () -> {
                admin.deleteTopics(List.of(TOPIC)).all().get();
                return same(admin.listTopics().names().get().contains(TOPIC), false);
            });
        }
        claim("transactions are refused at once", () -> {
            long began = System.nanoTime();
            var settings = with(Map.of("transactional.id", TOPIC));
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
            } catch (RuntimeException error) {
                return same(System.nanoTime() - began < 5_000_000_000L, true);
            }
            throw new IllegalStateException("a transaction began");
        });
        System.exit(0);
    }

    static Map<String, Object> with(Map<String, Object> settings) {
        var all = new HashMap<>(COMMON);
        all.putAll(settings);
        return all;
    }

    static void produce(String codec, int count) throws Exception {
        var settings = with(Map.of("compression.type", codec, "acks", "all"));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            var sent = IntStream.range(0, count)
                    .mapToObj(number -> producer.send(new ProducerRecord<>(TOPIC, "" + number, codec + "-" + number)))
                    .toList();
            for (var each : sent) each.get(SECONDS, TimeUnit.SECONDS);
        }
    }

    static KafkaConsumer<String, String> consumer(String group, String assignor) {
        return new KafkaConsumer<>(with(Map.of(
                "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor)),
                new StringDeserializer(), new StringDeserializer());
    }

    static Set<String> read(String group, int wanted) {
        var found = new HashSet<String>();
        try (var consumer = consumer(group, "RangeAssignor")) {
            consumer.subscribe(List.of(TOPIC));
            long deadline = System.nanoTime() + SECONDS * 1_000_000_000L;
            while (found.size() < wanted && System.nanoTime() < deadline)
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> found.add(record.value()));
            consumer.commitSync();
        }
        return found;
    }

    /** Polls both members in one thread until one has two partitions, and the other one. */
    static Object share(String assignor) throws Exception {
        try (var one = consumer(TOPIC + assignor, assignor); var two = consumer(TOPIC + assignor, assignor)) {
            one.subscribe(List.of(TOPIC));
            two.subscribe(List.of(TOPIC));
            until(() -> {
                one.poll(Duration.ofMillis(200));
                two.poll(Duration.ofMillis(200));
                int first = one.assignment().size(), second = two.assignment().size();
                return first + second == 3 && first * second == 2;
            });
        }
        return null;
    }

    static void until(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + SECONDS * 1_000_000_000L;
        while (!condition.call()) {
            if (System.nanoTime() > deadline) throw new IllegalStateException("not so after " + SECONDS + " s");
            Thread.sleep(50);
        }
    }

    static Object same(Object found, Object expected) {
        if (!found.equals(expected)) throw new IllegalStateException(found + " is not " + expected);
        return null;
    }

    static void claim(String name, Callable<?> work) {
        try {
            work.call();
            System.out.println("passed " + name);
        } catch (Throwable error) {
            System.out.println("failed " + name + ": " + error.toString().replaceAll("\\s+", " "));
        }
    }
}
