// franz-go: topics, records, groups, and administration. Prints a line for each claim.
package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"interop/claims"
)

const records = 100

var (
	topic    = fmt.Sprintf("franz-%d", time.Now().UnixNano())
	deadline context.Context
	admin    *kadm.Client
	codecs   = []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
		kgo.ZstdCompression(),
	}
)

func connect(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(claims.Addresses()...))...)
	if err != nil {
		panic(err)
	}
	return client
}

func create(name string) error {
	_, err := admin.CreateTopic(deadline, 3, 3, nil, name)
	return err
}

func described() error {
	if err := create(topic); err != nil {
		return err
	}
	found, err := admin.ListTopics(deadline, topic)
	if err != nil {
		return err
	}
	replicas := []int{}
	for _, each := range found[topic].Partitions {
		replicas = append(replicas, len(each.Replicas))
	}
	return claims.Same(replicas, []int{3, 3, 3})
}

func produce(codec kgo.CompressionCodec, count int) error {
	client := connect(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
	defer client.Close()
	batch := []*kgo.Record{}
	for number := range count {
		batch = append(batch, kgo.KeyStringRecord(strconv.Itoa(number), fmt.Sprintf("%v-%d", codec, number)))
	}
	return client.ProduceSync(deadline, batch...).FirstErr()
}

func member(group, name string, options ...kgo.Opt) *kgo.Client {
	return connect(append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
}

// read has a member read until it has as many records as are wanted, and commit them.
func read(client *kgo.Client, wanted int) ([]*kgo.Record, error) {
	found := []*kgo.Record{}
	for len(found) < wanted {
		fetches := client.PollFetches(deadline)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, client.CommitUncommittedOffsets(deadline)
}

func readWithNewMember(wanted int) error {
	client := member(topic, topic)
	defer client.Close()
	found, err := read(client, wanted)
	if err != nil {
		return err
	}
	return claims.Same(len(found), wanted)
}

func goesOn() error {
	if err := readWithNewMember(len(codecs) * records); err != nil {
		return err
	}
	if err := produce(kgo.NoCompression(), 1); err != nil {
		return err
	}
	return readWithNewMember(1)
}

func share(balancer kgo.GroupBalancer) error {
	group := topic + balancer.ProtocolName()
	for range 2 {
		client := member(group, topic, kgo.Balancers(balancer))
		defer client.Close()
	}
	return claims.Until(func() (bool, error) {
		found, err := admin.DescribeGroups(deadline, group)
		shares := []int{}
		for _, each := range found[group].Members {
			partitions := 0
			if assigned, ok := each.Assigned.AsConsumer(); ok {
				for _, topic := range assigned.Topics {
					partitions += len(topic.Partitions)
				}
			}
			shares = append(shares, partitions)
		}
		sort.Ints(shares)
		return found[group].State == "Stable" && claims.Same(shares, []int{1, 2}) == nil, err
	})
}

func offsets() error {
	ends, err := admin.ListEndOffsets(deadline, topic)
	if err != nil {
		return err
	}
	sum := int64(0)
	ends.Each(func(each kadm.ListedOffset) { sum += each.Offset })
	if err := claims.Same(sum, int64(len(codecs)*records+1)); err != nil {
		return err
	}
	timed, err := admin.ListOffsetsAfterMilli(deadline, 1, topic)
	if err != nil {
		return err
	}
	return claims.Same(timed[topic][0].Offset, int64(0))
}

func groups() error {
	listed, err := admin.ListGroups(deadline)
	if err != nil {
		return err
	}
	if err := claims.Same(listed[topic].State, "Empty"); err != nil {
		return err
	}
	committed, err := admin.FetchOffsets(deadline, topic)
	if err != nil {
		return err
	}
	sum := int64(0)
	committed.Each(func(each kadm.OffsetResponse) { sum += each.At })
	if err := claims.Same(sum, int64(len(codecs)*records+1)); err != nil {
		return err
	}
	_, err = admin.DeleteGroup(deadline, topic)
	return err
}

func configs() error {
	value := "3600000"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	if altered, err := admin.AlterTopicConfigs(deadline, changes, topic); err != nil || altered[0].Err != nil {
		return fmt.Errorf("%v, %v", err, altered)
	}
	return claims.Until(func() (bool, error) {
		found, err := admin.DescribeTopicConfigs(deadline, topic)
		if err != nil {
			return false, err
		}
		for _, each := range found[0].Configs {
			if each.Key == "retention.ms" {
				return each.MaybeValue() == value, nil
			}
		}
		return false, nil
	})
}

func partitions() error {
	if added, err := admin.CreatePartitions(deadline, 2, topic); err != nil || added.Error() != nil {
		return fmt.Errorf("%v, %v", err, added.Error())
	}
	before := kadm.Offsets{}
	before.AddOffset(topic, 0, 10, -1)
	deleted, err := admin.DeleteRecords(deadline, before)
	if err != nil {
		return err
	}
	return claims.Same(deleted[topic][0].LowWatermark, int64(10))
}

// madeAnew has a producer and a member go on after their topic was deleted and made anew. By franz-go's rules
// they have to purge it: until then they get UNKNOWN_TOPIC_ID.
func madeAnew() error {
	name := topic + "-anew"
	producer, consumer := connect(kgo.DefaultProduceTopic(name)), member(name, name)
	defer producer.Close()
	defer consumer.Close()
	for range 2 {
		if err := create(name); err != nil {
			return err
		}
		for number := range records {
			if err := producer.ProduceSync(deadline, kgo.StringRecord(strconv.Itoa(number))).FirstErr(); err != nil {
				return err
			}
		}
		if _, err := read(consumer, records); err != nil {
			return err
		}
		if _, err := admin.DeleteTopic(deadline, name); err != nil {
			return err
		}
		producer.PurgeTopicsFromClient(name)
		consumer.PurgeTopicsFromClient(name)
		consumer.AddConsumeTopics(name)
	}
	return nil
}

// copied writes and reads over the death of a leader. The runner compares what is read.
func copied() error {
	name := topic + "-copied"
	if err := create(name); err != nil {
		return err
	}
	producer := connect(kgo.DefaultProduceTopic(name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	consumer := member(name, name)
	defer producer.Close()
	defer consumer.Close()
	return claims.InHalves(name, func(from, until int) error {
		batch := []*kgo.Record{}
		for number := from; number < until; number++ {
			text := strconv.Itoa(number)
			record := kgo.KeyStringRecord("key-"+text, "value-"+text)
			record.Partition = int32(number % 3)
			record.Headers = []kgo.RecordHeader{{Key: "number", Value: []byte(text)}}
			batch = append(batch, record)
		}
		if err := producer.ProduceSync(deadline, batch...).FirstErr(); err != nil {
			return err
		}
		found, err := read(consumer, until-from)
		if err != nil {
			return err
		}
		for _, each := range found {
			header := each.Headers[0]
			claims.Read(int(each.Partition), each.Key, header.Key, header.Value, each.Value)
		}
		return nil
	})
}

// transactions commits, aborts and commits again, and reads what is committed.
func transactions() error {
	name := topic + "-transactions"
	if err := create(name); err != nil {
		return err
	}
	producer := connect(kgo.TransactionalID(name), kgo.DefaultProduceTopic(name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	for _, value := range []string{"first", "aborted", "last"} {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		for partition := range int32(3) {
			record := &kgo.Record{Partition: partition, Value: []byte(value)}
			if err := producer.ProduceSync(deadline, record).FirstErr(); err != nil {
				return err
			}
		}
		if err := producer.EndTransaction(deadline, kgo.TransactionEndTry(value != "aborted")); err != nil {
			return err
		}
	}
	consumer := member(name, name, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	found, err := read(consumer, 6)
	if err != nil {
		return err
	}
	values := map[int32]string{}
	for _, each := range found {
		values[each.Partition] += string(each.Value) + " "
	}
	return claims.Same(values, map[int32]string{0: "first last ", 1: "first last ", 2: "first last "})
}

func main() {
	claims.Version("github.com/twmb/franz-go")
	client := connect()
	admin = kadm.NewClient(client)
	claim := claims.Limited(&deadline)
	claim("topics are created and described", described)
	claim("batches of each codec are acknowledged, idempotent", func() error {
		return claims.Each(codecs, func(codec kgo.CompressionCodec) error { return produce(codec, records) })
	})
	claim("a group reads, commits, and goes on where it was", goesOn)
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()} {
		claim("two members share the partitions, "+balancer.ProtocolName(), func() error { return share(balancer) })
	}
	claim("offsets are listed, also by time", offsets)
	claim("groups are listed, described and deleted", groups)
	claim("configs are changed and described", configs)
	claim("partitions are added, records deleted", partitions)
	claim("producer and consumer go on with a topic that is made anew, once they purge it", madeAnew)
	claim("topics are deleted", func() error {
		_, err := admin.DeleteTopic(deadline, topic)
		return err
	})
	claim("what is committed is read, and what is aborted is not", transactions)
	claim("records are written and read over the death of a leader", copied)
}
