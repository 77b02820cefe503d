package servers

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// What names the servers of a node, and of a room.
const (
	storeSetting  = "TROUPE_STORE_URL"
	brokerSetting = "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL"
	prefixSetting = "TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX"
)

// Room is an empty database and a unique prefix for names on a broker, for nodes that a person tries outside tests.
type Room struct {
	Store    string // URL of the database
	Broker   string // URL of the broker
	Prefix   string // of every queue and exchange
	server   string // URL of the database that the other is made and dropped by
	database string
	private  []func() error // end the servers that were started for the room
}

// kind is one of a room's two servers: how it is found, and how one is started.
type kind struct {
	name, setting string
	url           string // on the default port
	program, pkg  string
	folders       []string
	try           func(url string) error
	start         func() (url string, end func() error, err error)
}

var storeKind = kind{
	name: "Postgres", setting: storeSetting, url: "postgres://postgres@" + postgresAddr + "/postgres?sslmode=disable",
	program: "initdb", folders: []string{"/usr/lib/postgresql/*/bin"}, pkg: "postgresql", try: ping,
	start: func() (string, func() error, error) {
		p, err := StartPostgres(PostgresOptions{})
		if err != nil {
			return "", nil, err
		}
		return p.URL, p.Close, nil
	},
}

var brokerKind = kind{
	name: "RabbitMQ", setting: brokerSetting, url: "amqp://guest:guest@" + rabbitAddr + "/",
	program: "rabbitmq-server", folders: []string{"/usr/lib/rabbitmq/bin"}, pkg: "rabbitmq-server", try: dial,
	start: func() (string, func() error, error) {
		r, err := StartRabbitMQ(RabbitMQOptions{})
		if err != nil {
			return "", nil, err
		}
		return r.URL, r.Close, nil
	},
}

// find is a server that answers: the one that the node's setting names, else the one on the default port, else a private
// one, which end ends.
func (k *kind) find() (url string, end func() error, err error) {
	if url := os.Getenv(k.setting); url != "" {
		if err := k.try(url); err != nil {
			return "", nil, fmt.Errorf("the %s that %s names does not let us in, correct or unset it: %w", k.name, k.setting, err)
		}
		return url, nil, nil
	}
	refused := k.try(k.url)
	if refused == nil {
		return k.url, nil, nil
	}
	if _, err := findProgram(k.program, k.folders...); err == nil {
		return k.start()
	}
	return "", nil, fmt.Errorf("there is no %s: set %s to the URL of one, or start one that lets in %s, or install its programs, and one "+
		"is started for the time (Debian: apt-get install %s): %w", k.name, k.setting, k.url, k.pkg, refused)
}

// MakeRoom finds two servers and makes a room on them. Its objects have the name in theirs.
func MakeRoom(name string) (*Room, error) {
	r := &Room{}
	if err := r.make(name); err != nil {
		return nil, errors.Join(err, r.endPrivate())
	}
	return r, nil
}

func (r *Room) make(name string) error {
	for _, want := range []struct {
		kind *kind
		url  *string
	}{{&storeKind, &r.server}, {&brokerKind, &r.Broker}} {
		url, end, err := want.kind.find()
		if err != nil {
			return err
		}
		*want.url = url
		if end != nil {
			r.private = append(r.private, end)
		}
	}
	own := make([]byte, 4)
	_, _ = rand.Read(own) // it never fails
	tail := hex.EncodeToString(own)
	r.database, r.Prefix = "troupe_"+name+"_"+tail, "troupe-"+name+"-"+tail
	var err error
	if r.Store, err = database(r.server, r.database); err != nil {
		return fmt.Errorf("%s: %w", storeSetting, err)
	}
	if err := execute(r.server, "CREATE DATABASE "+r.database); err != nil {
		return fmt.Errorf("make a database, for which %s must name a user who may: %w", storeSetting, err)
	}
	return nil
}

// Settings returns the settings of a node in the room, as environment variables.
func (r *Room) Settings() []string {
	return []string{storeSetting + "=" + r.Store, brokerSetting + "=" + r.Broker, prefixSetting + "=" + r.Prefix}
}

// Close removes everything that nodes made in the room, and the room. The nodes must have ended.
func (r *Room) Close() error {
	names, err := r.queues()
	return errors.Join(err, r.clear(names), execute(r.server, "DROP DATABASE "+r.database+" WITH (FORCE)"), r.endPrivate())
}

func (r *Room) endPrivate() (err error) {
	for _, end := range r.private {
		err = errors.Join(err, end())
	}
	return err
}

// queues are the names of all queues that nodes can have made: those of their workers stand in the store.
func (r *Room) queues() ([]string, error) {
	settings := broker.Settings{Prefix: r.Prefix}
	var names []string
	for _, q := range settings.Shared().Queues {
		names = append(names, q.Name)
	}
	migrated, err := Query(r.Store, "SELECT 1 WHERE to_regclass('worker') IS NOT NULL")
	if err != nil || len(migrated) == 0 {
		return names, err
	}
	rows, err := Query(r.Store, "SELECT id, incarnation FROM worker")
	of := map[string]bool{} // a pool's queue once, and not for each of its workers
	for _, row := range rows {
		worker := messages.WorkerID(row[0])
		incarnation, bad := messages.ParseIncarnation(row[1])
		node, pool, _, ok := worker.Split()
		if bad != nil || !ok {
			return names, fmt.Errorf("worker %q of incarnation %q: not as a node writes them", row[0], row[1])
		}
		of[settings.WorkerQueueName(worker, incarnation)] = true
		of[settings.PoolQueueName(node, pool, incarnation)] = true
	}
	return slices.AppendSeq(names, maps.Keys(of)), err
}

// clear deletes queues, and the exchanges that all nodes share. What is not there is no error.
func (r *Room) clear(queues []string) error {
	return onChannel(r.Broker, func(c *amqp.Channel) error {
		for _, name := range queues {
			if _, err := c.QueueDelete(name, false, false, false); err != nil {
				return fmt.Errorf("delete queue %s: %w", name, err)
			}
		}
		for _, e := range (broker.Settings{Prefix: r.Prefix}).Shared().Exchanges {
			if err := c.ExchangeDelete(e.Name, false, false); err != nil {
				return fmt.Errorf("delete exchange %s: %w", e.Name, err)
			}
		}
		return nil
	})
}

// clearWithin bounds the work of onChannel.
const clearWithin = time.Minute

// onChannel does something on a connection of its own.
func onChannel(url string, do func(*amqp.Channel) error) error {
	connection, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return err
	}
	defer connection.Close()
	limit := time.AfterFunc(clearWithin, func() { _ = connection.CloseDeadline(time.Now()) })
	defer limit.Stop()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	return do(channel)
}

// HasQueue reports whether the queue exists.
func HasQueue(url, name string) (bool, error) {
	err := onChannel(url, func(c *amqp.Channel) error {
		_, err := c.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}
