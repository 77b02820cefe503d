package rabbitmq

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

// TestQueueArguments checks the arguments of a declaration. They cannot be changed for an existing queue.
func TestQueueArguments(t *testing.T) {
	t.Parallel()
	q := broker.Queue{
		Name: "q", Quorum: true, TTL: time.Minute, Expires: time.Hour, MaxLength: 7, DeliveryLimit: 3, DeadLetterExchange: "dlx",
	}
	require.Equal(t, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(60_000), "x-expires": int64(3_600_000), "x-max-length": int64(7),
		"x-overflow": "reject-publish", "x-delivery-limit": int64(3), "x-dead-letter-exchange": "dlx",
		"x-dead-letter-strategy": "at-least-once",
	}, arguments(q))
	q.Quorum, q.DeliveryLimit = false, 0
	require.Equal(t, amqp.Table{
		"x-queue-type": "classic", "x-message-ttl": int64(60_000), "x-expires": int64(3_600_000), "x-max-length": int64(7),
		"x-overflow": "reject-publish", "x-dead-letter-exchange": "dlx",
	}, arguments(q))
	require.Equal(t, amqp.Table{"x-queue-type": "classic"}, arguments(broker.Queue{Name: "q"}))
	require.Equal(t, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000_000)}, arguments(broker.Queue{Name: "q", Quorum: true}),
		"RabbitMQ 4 has a limit of 20 where none is named")
	require.Equal(t, "reject-publish", arguments(broker.Queue{Quorum: true, DeadLetterExchange: "dlx"})["x-overflow"],
		"without it at-least-once silently becomes at-most-once")
}

func TestTimesInMilliseconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "", -time.Second: "", time.Nanosecond: "1", time.Millisecond: "1", 1500 * time.Microsecond: "1", time.Hour: "3600000",
		400 * 24 * time.Hour: "34560000000",
	} {
		require.Equal(t, want, toExpiration(d))
	}
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "1.5": 0, "0": 0, "250": 250 * time.Millisecond, "9223372036854775807": 0,
	} {
		require.Equal(t, want, fromExpiration(text), text)
	}
}

// TestHeadersOfAnyPublisher: other programs submit by AMQP, with headers of any type that their libraries use.
func TestHeadersOfAnyPublisher(t *testing.T) {
	t.Parallel()
	require.Nil(t, fromTable(nil))
	require.Nil(t, fromTable(amqp.Table{"x-death": []any{}, "x-first-death-queue": "q", "x-delivery-count": int64(1)}))
	require.Equal(t, map[string]string{
		"text": "a", "bytes": "b", "int": "-3", "byte": "255", "float": "1.5", "true": "true", "nil": "",
		"time": "2026-01-02T03:04:05Z", "array": "[1 x]", "table": "map[k:v]",
	}, fromTable(amqp.Table{
		"text": "a", "bytes": []byte("b"), "int": int32(-3), "byte": byte(math.MaxUint8), "float": 1.5, "true": true, "nil": nil,
		"time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "array": []any{1, "x"}, "table": amqp.Table{"k": "v"},
	}))
	require.Nil(t, toTable(nil))
	require.Equal(t, amqp.Table{"a": "b"}, toTable(map[string]string{"a": "b"}))
}

func TestDeathsOfAnyForm(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	require.Equal(t, []broker.Death{
		{
			Reason: broker.DeathRejected, Queue: "two", Exchange: "fan", RoutingKey: "k", At: at, Count: 2,
			Expiration: 250 * time.Millisecond,
		},
		{Reason: broker.DeathExpired, Queue: "one", Count: 1},
		{},
	}, deaths(amqp.Table{"x-death": []any{
		amqp.Table{
			"reason": "rejected", "queue": "two", "exchange": "fan", "routing-keys": []any{"k", "l"}, "time": at,
			"count": int64(2), "original-expiration": "250",
		},
		amqp.Table{"reason": "expired", "queue": []byte("one"), "count": int32(1), "routing-keys": "no list", "time": "no time"},
		"no table",
		amqp.Table{},
	}}))
	require.Empty(t, deaths(amqp.Table{"x-death": "forged"}))
	require.Empty(t, deaths(nil))
}
