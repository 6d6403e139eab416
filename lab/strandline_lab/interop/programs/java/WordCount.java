// An instance of an application of Kafka Streams that counts words, each exactly once. Prints its states.

import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

public class WordCount {
    /** The application's name, topics of input and output, a folder, and the addresses of the brokers. */
    public static void main(String[] arguments) throws Exception {
        var builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("words"))
                        .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(count -> "" + count)
                .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
        var settings = new Properties();
        settings.put("application.id", arguments[0]);
        settings.put("state.dir", arguments[3]);
        settings.put("bootstrap.servers", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("replication.factor", "3");
        settings.put("num.stream.threads", "2");
        // Without a cache each count is written, so that one that is there twice, or is not there, is seen.
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.auto.offset.reset", "earliest");
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("error " + error.toString().replaceAll("\\s+", " "));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread.currentThread().join();
    }
}
