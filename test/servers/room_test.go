package servers

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// TestRoomIsCleared makes in a room what nodes make, and finds none of it once the room is closed.
func TestRoomIsCleared(t *testing.T) {
	outer := Postgres(t)
	rabbit, _ := RabbitMQ(t)
	t.Setenv(storeSetting, outer)
	t.Setenv(brokerSetting, rabbit)
	r, err := MakeRoom("test")
	require.NoError(t, err)
	require.Equal(t, []string{storeSetting + "=" + r.Store, brokerSetting + "=" + rabbit, prefixSetting + "=" + r.Prefix}, r.Settings())

	settings, incarnation := broker.Settings{Prefix: r.Prefix}, messages.NewIncarnation()
	require.NoError(t, execute(r.Store, "CREATE TABLE worker AS SELECT 'a/go/3'::text AS id, '"+incarnation.String()+"'::uuid AS incarnation"))
	names := []string{
		settings.WorkerQueueName("a/go/3", incarnation), settings.PoolQueueName("a", "go", incarnation),
		settings.RequestsQueue(), settings.DeadLetterQueue(),
	}
	require.NoError(t, onChannel(rabbit, func(c *amqp.Channel) error {
		for _, name := range names {
			if _, err := c.QueueDeclare(name, true, false, false, false, nil); err != nil {
				return err
			}
		}
		return c.ExchangeDeclare(settings.ExecutionsExchange(), amqp.ExchangeTopic, true, false, false, false, nil)
	}))

	require.NoError(t, r.Close())
	for _, name := range names {
		there, err := HasQueue(rabbit, name)
		require.NoError(t, err)
		require.False(t, there, name)
	}
	require.Error(t, onChannel(rabbit, func(c *amqp.Channel) error {
		return c.ExchangeDeclarePassive(settings.ExecutionsExchange(), amqp.ExchangeTopic, true, false, false, false, nil)
	}))
	require.ErrorContains(t, ping(r.Store), "does not exist")
}

// TestRoomSaysWhatIsMissing names servers that are not there.
func TestRoomSaysWhatIsMissing(t *testing.T) {
	ports, err := FreePorts(1)
	require.NoError(t, err)
	t.Setenv(storeSetting, "postgres://postgres@"+Loopback(ports[0])+"/postgres")
	_, err = MakeRoom("test")
	require.ErrorContains(t, err, "the Postgres that TROUPE_STORE_URL names does not let us in, correct or unset it")

	absent := kind{name: "Postgres", setting: "TROUPE_NOT_SET", url: "postgres://postgres@" + Loopback(ports[0]) + "/postgres", program: "no-such-program", pkg: "postgresql", try: ping}
	_, _, err = absent.find()
	require.ErrorContains(t, err, "there is no Postgres: set TROUPE_NOT_SET to the URL of one, or start one that lets in postgres://postgres@")
	require.ErrorContains(t, err, "apt-get install postgresql")
}
