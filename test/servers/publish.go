package servers

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Publish sends a body several times to a queue of the RabbitMQ at url, like another program, and returns once the
// server has confirmed all. Troupe's own client refuses bodies of more than 16 MiB.
func Publish(ctx context.Context, url, queue string, times int, body []byte) error {
	return onChannel(url, func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for i := range times {
			confirm, err := c.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{MessageId: fmt.Sprint(i), Body: body})
			if err != nil {
				return err
			}
			if confirmed, err := confirm.WaitContext(ctx); err != nil || !confirmed {
				return errors.Join(err, fmt.Errorf("message %d is not confirmed", i))
			}
		}
		return nil
	})
}
