// Package claims prints what a client does, a line for each claim: `passed NAME`, or `failed NAME: reason`.
package claims

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

// Limit is the longest that one step may take.
const Limit = 60 * time.Second

// Half of the records that a program writes and reads over the death of a leader.
const Half = 150

// Addresses are the brokers'.
func Addresses() []string { return strings.Split(os.Args[1], ",") }

// Version prints the version of a module, as go.mod pins it.
func Version(module string) {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			fmt.Println("version", strings.TrimPrefix(each.Version, "v"))
		}
	}
}

// Claim runs the work. The claim holds if it returns no error.
func Claim(name string, work func() error) {
	if err := work(); err != nil {
		fmt.Printf("failed %s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
	} else {
		fmt.Printf("passed %s\n", name)
	}
}

// Limited is Claim for work whose calls end with the context that it puts into deadline.
func Limited(deadline *context.Context) func(string, func() error) {
	return func(name string, work func() error) {
		limited, cancel := context.WithTimeout(context.Background(), Limit)
		defer cancel()
		*deadline = limited
		Claim(name, work)
	}
}

// Each does the work with each value, and names the one with which it fails.
func Each[T any](values []T, work func(T) error) error {
	for _, value := range values {
		if err := work(value); err != nil {
			return fmt.Errorf("%v: %w", value, err)
		}
	}
	return nil
}

// Same returns an error with both if they differ.
func Same(found, expected any) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("%v is not %v", found, expected)
	}
	return nil
}

// Until asks until the condition holds.
func Until(condition func() (bool, error)) error {
	for deadline := time.Now().Add(Limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if holds, err := condition(); err != nil || holds {
			return err
		}
	}
	return fmt.Errorf("not so after %v", Limit)
}

// KillLeader has the broker killed that leads partition 0 of a topic.
func KillLeader(topic string) error {
	fmt.Println("kill the leader of", topic)
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// InHalves does the work for each half of the records, and has the leader killed in between.
func InHalves(topic string, work func(from, until int) error) error {
	if err := work(0, Half); err != nil {
		return err
	}
	if err := KillLeader(topic); err != nil {
		return err
	}
	return work(Half, 2*Half)
}

// Read prints a record that was read back, for the runner to compare.
func Read(partition int, key []byte, header string, headerValue, value []byte) {
	fmt.Printf("read %d %s %s=%s %s\n", partition, key, header, headerValue, value)
}
