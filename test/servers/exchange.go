package servers

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DeleteExchange deletes an exchange with its bindings, as an operator may by mistake.
func DeleteExchange(url, name string) error {
	return onChannel(url, func(c *amqp.Channel) error { return c.ExchangeDelete(name, false, false) })
}

// HasExchange reports whether the exchange exists.
func HasExchange(url, name string) (bool, error) {
	err := onChannel(url, func(c *amqp.Channel) error {
		return c.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}
