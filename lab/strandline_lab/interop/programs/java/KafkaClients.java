// Java's kafka-clients: topics, records, groups, and administration. Prints a line for each claim.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class KafkaClients extends Claims {
    static final int RECORDS = 100;
    static final int HALF = 150;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final String TOPIC = "java-" + System.nanoTime();

    public static void main(String[] arguments) throws Exception {
        connect(arguments[0]);
        try (Admin admin = Admin.create(COMMON)) {
            records(admin);
            groups(admin);
            administration(admin);
            claim("a consumer that waits fetches within a session", () -> session(admin));
            claim("producer and consumer go on with a topic that is made anew", () -> madeAnew(admin));
            claim("topics are deleted", () -> {
                admin.deleteTopics(List.of(TOPIC)).all().get();
                return same(admin.listTopics().names().get().contains(TOPIC), false);
            });
            claim("records are written and read over the death of a leader", () -> copied(admin));
            claim("a broker that is down is described as fenced", () -> {
                var fenced = new DescribeClusterOptions().includeFencedBrokers(true);
                until(() -> admin.describeCluster(fenced).nodes().get().stream()
                        .filter(Node::isFenced).count() == 1);
                return same(admin.describeCluster().nodes().get().size(), 2);
            });
        }
        System.exit(0);
    }

    static void records(Admin admin) {
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
    }

    static void groups(Admin admin) {
        claim("offsets are listed, also by time", () -> {
            var partition = new TopicPartition(TOPIC, 0);
            var earliest = admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get();
            same(earliest.get(partition).offset(), 0L);
            var timed = admin.listOffsets(Map.of(partition, OffsetSpec.forTimestamp(1))).all().get();
            return same(timed.get(partition).offset(), 0L);
        });
        claim("groups are listed, described and deleted", () -> {
            var listed = admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get();
            same(listed.stream().anyMatch(each -> each.groupId().equals(TOPIC)), true);
            var group = admin.describeConsumerGroups(List.of(TOPIC)).all().get().get(TOPIC);
            same(group.groupState().toString(), "Empty");
            var committed = admin.listConsumerGroupOffsets(TOPIC).partitionsToOffsetAndMetadata().get();
            long sum = committed.values().stream().mapToLong(each -> each.offset()).sum();
            same(sum, CODECS.size() * RECORDS + 1L);
            return admin.deleteConsumerGroups(List.of(TOPIC)).all().get();
        });
        claim("members are removed from a group", () -> remove(admin));
    }

    static void administration(Admin admin) {
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
        claim("a topic is described by its id", () -> {
            var id = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).topicId();
            var found = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get();
            return same(found.get(id).name(), TOPIC);
        });
        claim("configs of a group and of a logger are described", () -> {
            var group = new ConfigResource(ConfigResource.Type.GROUP, TOPIC);
            admin.describeConfigs(List.of(group)).all().get();
            var logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
            var found = admin.describeConfigs(List.of(logger)).all().get().get(logger);
            return same(found.get("root").value(), "INFO");
        });
        claim("resources with configs are listed", () -> same(admin.listConfigResources().all().get()
                .contains(new ConfigResource(ConfigResource.Type.TOPIC, TOPIC)), true));
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(with(settings), new StringSerializer(), new StringSerializer());
    }

    /** Writes records to the partitions that the producer chooses, and waits for each. */
    static void produce(KafkaProducer<String, String> producer, String topic, String prefix, int count)
            throws Exception {
        var sent = IntStream.range(0, count)
                .mapToObj(each -> producer.send(new ProducerRecord<>(topic, "" + each, prefix + "-" + each)))
                .toList();
        for (var each : sent) each.get(SECONDS, TimeUnit.SECONDS);
    }

    static void produce(String codec, int count) throws Exception {
        try (var producer = producer(Map.of("compression.type", codec))) {
            produce(producer, TOPIC, codec, count);
        }
    }

    static KafkaConsumer<String, String> consumer(String group, Map<String, Object> settings) {
        var all = with(Map.of(
                "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static Map<String, Object> assignor(String name) {
        return Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + name);
    }

    static Set<String> read(String group, int wanted) throws Exception {
        try (var consumer = consumer(group, assignor("RangeAssignor"))) {
            consumer.subscribe(List.of(TOPIC));
            return read(consumer, wanted);
        }
    }

    static Set<String> read(KafkaConsumer<String, String> consumer, int wanted) throws Exception {
        var found = new HashSet<String>();
        readEach(consumer, wanted).forEach(record -> found.add(record.value()));
        return found;
    }

    static List<ConsumerRecord<String, String>> readEach(KafkaConsumer<String, String> consumer, int wanted)
            throws Exception {
        var found = new ArrayList<ConsumerRecord<String, String>>();
        until(() -> {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            return found.size() >= wanted;
        });
        consumer.commitSync();
        return found;
    }

    /** Polls both members in one thread until one has two partitions, and the other one. */
    static Object share(String assignor) throws Exception {
        try (var one = consumer(TOPIC + assignor, assignor(assignor));
                var two = consumer(TOPIC + assignor, assignor(assignor))) {
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

    /** A static member that is gone, and then a dynamic one. */
    static Object remove(Admin admin) throws Exception {
        String group = TOPIC + "-removed";
        var one = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")));
        var all = new RemoveMembersFromConsumerGroupOptions();
        for (var options : List.of(one, all)) {
            Map<String, Object> name = options.removeAll() ? Map.of() : Map.of("group.instance.id", "one");
            var consumer = consumer(group, name);
            consumer.subscribe(List.of(TOPIC));
            until(() -> !consumer.poll(Duration.ofMillis(100)).isEmpty());
            if (!options.removeAll()) consumer.close();
            same(members(admin, group), 1);
            admin.removeMembersFromConsumerGroup(group, options).all().get();
            same(members(admin, group), 0);
            if (options.removeAll()) consumer.close();
        }
        return null;
    }

    static int members(Admin admin, String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size();
    }

    /** A request that names a third of the partitions has a thousand bytes, one within a session 300 at most. */
    static Object session(Admin admin) throws Exception {
        String topic = TOPIC + "-wide";
        admin.createTopics(List.of(new NewTopic(topic, 90, (short) 3))).all().get();
        try (var consumer = consumer(topic, Map.of("fetch.max.wait.ms", "100"))) {
            var all = IntStream.range(0, 90).mapToObj(each -> new TopicPartition(topic, each)).toList();
            consumer.assign(all);
            until(() -> {
                consumer.poll(Duration.ofMillis(500));
                double bytes = metric(consumer, "outgoing-byte-total");
                double requests = metric(consumer, "request-total");
                consumer.poll(Duration.ofSeconds(2));
                double more = metric(consumer, "request-total") - requests;
                return more >= 10 && (metric(consumer, "outgoing-byte-total") - bytes) / more < 300;
            });
        }
        return admin.deleteTopics(List.of(topic)).all().get();
    }

    static double metric(KafkaConsumer<?, ?> consumer, String name) {
        return consumer.metrics().values().stream()
                .filter(each -> each.metricName().name().equals(name))
                .filter(each -> each.metricName().group().equals("consumer-metrics"))
                .mapToDouble(each -> (Double) each.metricValue()).sum();
    }

    static Object madeAnew(Admin admin) throws Exception {
        String topic = TOPIC + "-anew";
        try (var producer = producer(Map.of());
                var consumer = consumer(topic, Map.of("metadata.max.age.ms", "1000"))) {
            consumer.subscribe(List.of(topic));
            for (String time : List.of("first", "second")) {
                admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get();
                produce(producer, topic, time, RECORDS);
                var found = read(consumer, RECORDS);
                same(found.size(), RECORDS);
                same(found.stream().allMatch(each -> each.startsWith(time)), true);
                admin.deleteTopics(List.of(topic)).all().get();
            }
        }
        return null;
    }

    /** Writes and reads over the death of a leader. The runner compares what is read. */
    static Object copied(Admin admin) throws Exception {
        String topic = TOPIC + "-copied";
        admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get();
        try (var producer = producer(Map.of()); var consumer = consumer(topic, Map.of())) {
            consumer.subscribe(List.of(topic));
            for (int half = 0; half < 2; half++) {
                if (half == 1) {
                    System.out.println("kill the leader of " + topic);
                    System.in.read();
                }
                var sent = IntStream.range(half * HALF, (half + 1) * HALF).mapToObj(number -> {
                    var record = new ProducerRecord<>(topic, number % 3, "key-" + number, "value-" + number);
                    record.headers().add("number", ("" + number).getBytes());
                    return producer.send(record);
                }).toList();
                for (var each : sent) each.get(SECONDS, TimeUnit.SECONDS);
                for (var each : readEach(consumer, HALF)) {
                    var header = each.headers().iterator().next();
                    String text = header.key() + "=" + new String(header.value());
                    System.out.println("read " + each.partition() + " " + each.key() + " " + text + " " + each.value());
                }
            }
        }
        return null;
    }
}
