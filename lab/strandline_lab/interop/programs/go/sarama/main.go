// Sarama: topics, records, a group, and administration. Prints a line for each claim.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"interop/claims"
)

const records = 100

var topic = fmt.Sprintf("sarama-%d", time.Now().UnixNano())

// reader collects what a group reads, and ends its session once it has all.
type reader struct {
	wanted int
	read   map[string]bool
	found  chan string
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		r.found <- string(message.Value)
	}
	return nil
}

// readWithGroup returns the values that a new member reads until it has as many as are wanted.
func readWithGroup(addresses []string, config *sarama.Config, wanted int) (map[string]bool, error) {
	group, err := sarama.NewConsumerGroup(addresses, topic, config)
	if err != nil {
		return nil, err
	}
	r := &reader{wanted: wanted, read: map[string]bool{}, found: make(chan string)}
	ctx, cancel := context.WithTimeout(context.Background(), claims.Limit)
	done := make(chan error, 1)
	go func() { done <- group.Consume(ctx, []string{topic}, r) }()
	for len(r.read) < wanted {
		select {
		case value := <-r.found:
			r.read[value] = true
		case err := <-done:
			cancel()
			group.Close()
			return nil, fmt.Errorf("ended with %d of %d records: %v", len(r.read), wanted, err)
		}
	}
	cancel()
	go func() {
		for range r.found {
		}
	}()
	<-done
	return r.read, group.Close()
}

// committed returns the sum of the group's offsets, as a new client is told them.
func committed(addresses []string, config *sarama.Config) (int64, error) {
	admin, err := sarama.NewClusterAdmin(addresses, config)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	answer, err := admin.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0, 1, 2}})
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, partition := range []int32{0, 1, 2} {
		sum += answer.GetBlock(topic, partition).Offset
	}
	return sum, nil
}

func produce(addresses []string, config *sarama.Config, prefix string, count int) error {
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number := 0; number < count; number++ {
		value := sarama.StringEncoder(fmt.Sprintf("%s-%d", prefix, number))
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: value})
	}
	return producer.SendMessages(messages)
}

// copier passes on the messages that a group reads, and commits them.
type copier chan *sarama.ConsumerMessage

func (c copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		c <- message
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

// copied writes and reads over the death of a leader. The runner compares what is read.
func copied(addresses []string, common *sarama.Config, admin sarama.ClusterAdmin) error {
	name := topic + "-copied"
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
	if err := admin.CreateTopic(name, detail, false); err != nil {
		return err
	}
	config := *common
	config.Producer.Idempotent, config.Net.MaxOpenRequests, config.Producer.Retry.Max = true, 1, 100
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer(addresses, &config)
	if err != nil {
		return err
	}
	defer producer.Close()
	group, err := sarama.NewConsumerGroup(addresses, name, &config)
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), claims.Limit)
	defer cancel()
	found := make(copier, 2*claims.Half)
	go func() {
		for ctx.Err() == nil {
			group.Consume(ctx, []string{name}, found)
		}
	}()
	return claims.InHalves(name, func(from, until int) error {
		batch := []*sarama.ProducerMessage{}
		for number := from; number < until; number++ {
			text := fmt.Sprint(number)
			batch = append(batch, &sarama.ProducerMessage{
				Topic: name, Partition: int32(number % 3),
				Key: sarama.StringEncoder("key-" + text), Value: sarama.StringEncoder("value-" + text),
				Headers: []sarama.RecordHeader{{Key: []byte("number"), Value: []byte(text)}},
			})
		}
		if err := producer.SendMessages(batch); err != nil {
			return err
		}
		for range batch {
			select {
			case each := <-found:
				header := each.Headers[0]
				claims.Read(int(each.Partition), each.Key, string(header.Key), header.Value, each.Value)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// transactions commits, aborts and commits again, offsets of a group too, and reads what is committed.
func transactions(addresses []string, base *sarama.Config, admin sarama.ClusterAdmin) error {
	name := topic + "-transactions"
	detail := sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
	if err := admin.CreateTopic(name, &detail, false); err != nil {
		return err
	}
	config := *base
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = name
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	producer, err := sarama.NewSyncProducer(addresses, &config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for number, value := range []string{"first", "aborted", "last"} {
		if err := transaction(producer, name, value, int64(number)); err != nil {
			return err
		}
	}
	consumer, err := sarama.NewConsumer(addresses, &config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for partition := range int32(3) {
		reading, err := consumer.ConsumePartition(name, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		for _, expected := range []string{"first", "last"} {
			if err := claims.Same(string((<-reading.Messages()).Value), expected); err != nil {
				return err
			}
		}
	}
	answer, err := admin.ListConsumerGroupOffsets(name, map[string][]int32{name: {0}})
	if err != nil {
		return err
	}
	return claims.Same(answer.GetBlock(name, 0).Offset, int64(2))
}

// transaction writes a record to each partition, and an offset of a group.
func transaction(producer sarama.SyncProducer, name, value string, offset int64) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for partition := range int32(3) {
		message := &sarama.ProducerMessage{Topic: name, Partition: partition, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{name: {{Partition: 0, Offset: offset}}}
	if err := producer.AddOffsetsToTxn(offsets, name); err != nil {
		return err
	}
	if value == "aborted" {
		return producer.AbortTxn()
	}
	return producer.CommitTxn()
}

func main() {
	addresses := claims.Addresses()
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	claims.Version("github.com/IBM/sarama")

	var admin sarama.ClusterAdmin
	claims.Claim("topics are created", func() (err error) {
		if admin, err = sarama.NewClusterAdmin(addresses, config); err != nil {
			return err
		}
		return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}, false)
	})
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	claims.Claim("batches of each codec are acknowledged", func() error {
		for name, codec := range codecs {
			config.Producer.Compression = codec
			if err := produce(addresses, config, name, records); err != nil {
				return fmt.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	claims.Claim("a group reads, commits, and goes on where it was", func() error {
		if _, err := readWithGroup(addresses, config, len(codecs)*records); err != nil {
			return err
		}
		if sum, err := committed(addresses, config); err != nil || sum != int64(len(codecs)*records) {
			return fmt.Errorf("of %d records %d are committed: %v", len(codecs)*records, sum, err)
		}
		if err := produce(addresses, config, "more", 1); err != nil {
			return err
		}
		read, err := readWithGroup(addresses, config, 1)
		if err != nil {
			return err
		}
		if len(read) != 1 || !read["more-0"] {
			return fmt.Errorf("it read %v after all had been committed", read)
		}
		return nil
	})
	claims.Claim("groups are listed and described", func() error {
		groups, err := admin.ListConsumerGroups()
		if err != nil {
			return err
		}
		if _, there := groups[topic]; !there {
			return fmt.Errorf("%s is not among %d groups", topic, len(groups))
		}
		_, err = admin.DescribeConsumerGroups([]string{topic})
		return err
	})
	claims.Claim("topics are deleted", func() error { return admin.DeleteTopic(topic) })
	claims.Claim("what is committed is read, and what is aborted is not", func() error {
		return transactions(addresses, config, admin)
	})
	claims.Claim("records are written and read over the death of a leader", func() error {
		return copied(addresses, config, admin)
	})
}
