// kafka-go: topics, records, groups, and administration. Prints a line for each claim.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"interop/claims"
)

const records = 100

var (
	topic    = fmt.Sprintf("kafka-go-%d", time.Now().UnixNano())
	deadline context.Context
	client   = &kafka.Client{Addr: kafka.TCP(claims.Addresses()...), Timeout: claims.Limit}
	codecs   = []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
)

func create(name string) error {
	config := kafka.TopicConfig{Topic: name, NumPartitions: 3, ReplicationFactor: 3}
	answer, err := client.CreateTopics(deadline, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[name]
}

func described() error {
	if err := create(topic); err != nil {
		return err
	}
	found, err := client.Metadata(deadline, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	replicas := []int{}
	for _, each := range found.Topics[0].Partitions {
		replicas = append(replicas, len(each.Replicas))
	}
	return claims.Same(replicas, []int{3, 3, 3})
}

func writer(name string) *kafka.Writer {
	return &kafka.Writer{
		Addr: client.Addr, Topic: name, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		// A leader is away for longer than the default of ten attempts takes.
		MaxAttempts: 100,
		Balancer: kafka.BalancerFunc(func(message kafka.Message, _ ...int) int {
			number, _ := strconv.Atoi(string(message.Key)[len("key-"):])
			return number % 3
		}),
	}
}

func write(to *kafka.Writer, from, until int) error {
	batch := []kafka.Message{}
	for number := from; number < until; number++ {
		text := strconv.Itoa(number)
		batch = append(batch, kafka.Message{
			Key: []byte("key-" + text), Value: []byte("value-" + text),
			Headers: []kafka.Header{{Key: "number", Value: []byte(text)}},
		})
	}
	return to.WriteMessages(deadline, batch...)
}

func produce(codec kafka.Compression, count int) error {
	to := writer(topic)
	defer to.Close()
	to.Compression = codec
	return write(to, 0, count)
}

func member(group, name string, balancers ...kafka.GroupBalancer) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: claims.Addresses(), GroupID: group, Topic: name, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond, GroupBalancers: balancers,
	})
}

// read has a member read as many records as are wanted, and commit them.
func read(from *kafka.Reader, wanted int) ([]kafka.Message, error) {
	found := []kafka.Message{}
	for len(found) < wanted {
		message, err := from.FetchMessage(deadline)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", len(found), wanted, err)
		}
		found = append(found, message)
	}
	return found, again(func() error { return from.CommitMessages(deadline, found...) })
}

// again does the work until it succeeds. After the death of a broker kafka-go's CommitMessages may end with
// "use of closed network connection": its caller commits again.
func again(work func() error) error {
	return claims.Until(func() (bool, error) { return work() == nil, deadline.Err() })
}

func goesOn() error {
	for _, wanted := range []int{len(codecs)*records - 1, 1} {
		from := member(topic, topic)
		found, err := read(from, wanted)
		from.Close()
		if err != nil {
			return err
		}
		if err := claims.Same(len(found), wanted); err != nil {
			return err
		}
	}
	return nil
}

func share(balancer kafka.GroupBalancer) error {
	group := topic + balancer.ProtocolName()
	for range 2 {
		from := member(group, topic, balancer)
		defer from.Close()
	}
	return claims.Until(func() (bool, error) {
		found, err := client.DescribeGroups(deadline, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return false, err
		}
		shares := []int{}
		for _, each := range found.Groups[0].Members {
			for _, topic := range each.MemberAssignments.Topics {
				shares = append(shares, len(topic.Partitions))
			}
		}
		sort.Ints(shares)
		return found.Groups[0].GroupState == "Stable" && claims.Same(shares, []int{1, 2}) == nil, nil
	})
}

func offsets() error {
	sum := int64(0)
	for partition := range 3 {
		asked := map[string][]kafka.OffsetRequest{
			topic: {kafka.LastOffsetOf(partition), kafka.TimeOffsetOf(partition, time.UnixMilli(1))},
		}
		found, err := client.ListOffsets(deadline, &kafka.ListOffsetsRequest{Topics: asked})
		if err != nil {
			return err
		}
		each := found.Topics[topic][0]
		sum += each.LastOffset
		if _, first := each.Offsets[0]; each.Error != nil || !first {
			return fmt.Errorf("by time: %+v", each)
		}
	}
	return claims.Same(sum, int64(len(codecs)*records))
}

func groups() error {
	committed, err := client.OffsetFetch(deadline, &kafka.OffsetFetchRequest{
		GroupID: topic, Topics: map[string][]int{topic: {0, 1, 2}},
	})
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, each := range committed.Topics[topic] {
		sum += each.CommittedOffset
	}
	if err := claims.Same(sum, int64(len(codecs)*records)); err != nil {
		return err
	}
	deleted, err := client.DeleteGroups(deadline, &kafka.DeleteGroupsRequest{GroupIDs: []string{topic}})
	return errors.Join(err, deleted.Errors[topic])
}

func configs() error {
	name := "retention.ms"
	altered, err := client.IncrementalAlterConfigs(deadline, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: "3600000"}},
		}},
	})
	if err != nil || altered.Resources[0].Error != nil {
		return fmt.Errorf("%v, %v", err, altered)
	}
	return claims.Until(func() (bool, error) {
		found, err := client.DescribeConfigs(deadline, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name},
			}},
		})
		if err != nil {
			return false, err
		}
		return found.Resources[0].ConfigEntries[0].ConfigValue == "3600000", nil
	})
}

// copied writes and reads over the death of a leader. The runner compares what is read.
func copied() error {
	name := topic + "-copied"
	if err := create(name); err != nil {
		return err
	}
	to, from := writer(name), member(name, name)
	defer to.Close()
	defer from.Close()
	return claims.InHalves(name, func(first, end int) error {
		if err := write(to, first, end); err != nil {
			return err
		}
		found, err := read(from, end-first)
		if err != nil {
			return err
		}
		for _, each := range found {
			header := each.Headers[0]
			claims.Read(each.Partition, each.Key, header.Key, header.Value, each.Value)
		}
		return nil
	})
}

func main() {
	claims.Version("github.com/segmentio/kafka-go")
	claim := claims.Limited(&deadline)
	claim("topics are created and described", described)
	claim("batches of each codec are acknowledged", func() error {
		return claims.Each(codecs, func(codec kafka.Compression) error { return produce(codec, records) })
	})
	claim("a group reads, commits, and goes on where it was", goesOn)
	for _, balancer := range []kafka.GroupBalancer{kafka.RangeGroupBalancer{}, kafka.RoundRobinGroupBalancer{}} {
		claim("two members share the partitions, "+balancer.ProtocolName(), func() error { return share(balancer) })
	}
	claim("offsets are listed, also by time", offsets)
	claim("offsets of a group are fetched, the group is deleted", groups)
	claim("configs are changed and described", configs)
	claim("topics are deleted", func() error {
		deleted, err := client.DeleteTopics(deadline, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		return errors.Join(err, deleted.Errors[topic])
	})
	claim("records are written and read over the death of a leader", copied)
}
