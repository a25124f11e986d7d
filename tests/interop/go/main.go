// Sends ten messages with the Go client and receives them; prints the bodies.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const count = 10

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	servers, topic := strings.Split(os.Args[1], ";"), os.Args[2]
	sender, err := rocketmq.NewProducer(producer.WithNameServer(servers), producer.WithGroupName("go-producer"))
	check(err)
	check(sender.Start())
	for number := 0; number < count; number++ {
		_, err := sender.SendSync(context.Background(), primitive.NewMessage(topic, []byte(fmt.Sprintf("go-%d", number))))
		check(err)
	}
	check(sender.Shutdown())
	bodies := make(chan string, count*10)
	receiver, err := rocketmq.NewPushConsumer(consumer.WithNameServer(servers), consumer.WithGroupName("go-consumer-"+topic),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(receiver.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			bodies <- string(message.Body)
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(receiver.Start())
	seen := map[string]bool{}
	deadline := time.After(60 * time.Second)
	for len(seen) < count {
		select {
		case body := <-bodies:
			if !seen[body] {
				seen[body] = true
				fmt.Println("received", body)
			}
		case <-deadline:
			check(fmt.Errorf("only %d messages", len(seen)))
		}
	}
	os.Exit(0)
}
