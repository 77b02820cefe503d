package broker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// ErrNoDeadLetter refuses a queue whose expired messages would be lost.
var ErrNoDeadLetter = errors.New("queue has a TTL but no dead-letter exchange")

// Settings is the configurable part of the topology. Zero fields mean the defaults.
type Settings struct {
	// Prefix begins every name. Default "troupe".
	Prefix string
	// WorkerTTL is how long a message may wait in a worker's queue. Default 5 min.
	WorkerTTL time.Duration
	// DeadLettersOff declares no dead-letter exchange. Worker queues then get no TTL and messages no expiration,
	// because expired messages would be lost; Warnings says so. Only the sweep over claim_by takes work back.
	DeadLettersOff bool
	// DeadLetterExchange is the exchange's name. The queue's name is the same with ".queue". Default Prefix with
	// ".dlx".
	DeadLetterExchange string
	// DeadLetterTTL is how long a dead letter is kept for the dead-letter bridge. Default 24 h.
	DeadLetterTTL time.Duration
	// Classic declares queues that are not replicated; the default is quorum.
	Classic bool
	// WorkerQueueMax bounds a worker queue's ready messages; publishing above it is nacked. Default 10,000.
	WorkerQueueMax int
	// DeadLetterMax bounds the dead-letter queue's ready messages. Default 1,000,000.
	DeadLetterMax int
	// RequestsMax bounds the submissions that wait in the requests queue; publishing above it is nacked. Default 1,000,000.
	RequestsMax int
}

// Defaults returns the default settings.
func Defaults() Settings { return Settings{}.withDefaults() }

// withDefaults sets the defaults of zero fields.
func (s Settings) withDefaults() Settings {
	s.Prefix = orElse(s.Prefix, "troupe")
	s.WorkerTTL = orElse(s.WorkerTTL, 5*time.Minute)
	s.DeadLetterExchange = orElse(s.DeadLetterExchange, s.Prefix+".dlx")
	s.DeadLetterTTL = orElse(s.DeadLetterTTL, 24*time.Hour)
	s.WorkerQueueMax = orElse(s.WorkerQueueMax, 10_000)
	s.DeadLetterMax = orElse(s.DeadLetterMax, 1_000_000)
	s.RequestsMax = orElse(s.RequestsMax, 1_000_000)
	return s
}

func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// ExecutionsExchange is the topic exchange of notifications, whose keys are execution.<status>.<action>.
func (s Settings) ExecutionsExchange() string { return s.withDefaults().Prefix + ".executions" }

// RequestsQueue is the queue to which other programs submit executions.
func (s Settings) RequestsQueue() string { return s.withDefaults().Prefix + ".requests" }

// NoticeKey is the routing key of an outcome's notice on the executions exchange. It removes from the action's name the
// characters with a meaning in AMQP's topics, and what exceeds AMQP's length of a key.
func NoticeKey(status messages.Status, action string) string {
	action = strings.NewReplacer("*", "_", "#", "_").Replace(action)
	return clipKey("execution." + status.String() + "." + action)
}

// routingKeyMax is AMQP's bound of a routing key, in bytes.
const routingKeyMax = 255

func clipKey(key string) string {
	if len(key) > routingKeyMax {
		key = strings.ToValidUTF8(key[:routingKeyMax], "")
	}
	return key
}

// Requests is the topology of the requests queue. Submissions wait there while no node runs.
func (s Settings) Requests() Topology {
	s = s.withDefaults()
	q := Queue{Name: s.RequestsQueue(), Quorum: !s.Classic, MaxLength: s.RequestsMax}
	if !s.DeadLettersOff {
		q.DeadLetterExchange = s.DeadLetterExchange
	}
	return Topology{Queues: []Queue{q}}
}

// DeadLetterQueue is the queue of dead letters; empty if dead letters are off.
func (s Settings) DeadLetterQueue() string {
	if s.DeadLettersOff {
		return ""
	}
	return s.withDefaults().DeadLetterExchange + ".queue"
}

// Shared is the topology that all nodes share. Every node declares it at its start.
func (s Settings) Shared() Topology {
	s = s.withDefaults()
	t := Topology{Exchanges: []Exchange{{Name: s.ExecutionsExchange(), Kind: Topic}}, Queues: s.Requests().Queues}
	if s.DeadLettersOff {
		return t
	}
	t.Exchanges = append(t.Exchanges, Exchange{Name: s.DeadLetterExchange, Kind: Fanout})
	t.Queues = append(t.Queues, Queue{
		Name: s.DeadLetterQueue(), Quorum: !s.Classic, TTL: s.DeadLetterTTL, MaxLength: s.DeadLetterMax,
	})
	t.Bindings = []Binding{{Exchange: s.DeadLetterExchange, Queue: s.DeadLetterQueue()}}
	return t
}

// NearDeadLetterQueue is the queue of the dead letters of queues that a node keeps in its memory beside a server; empty if dead letters are
// off.
func (s Settings) NearDeadLetterQueue() string {
	if s.DeadLettersOff {
		return ""
	}
	return s.DeadLetterQueue() + ".near"
}

// NearDeadLetters is the topology of that memory: the dead-letter exchange with this queue.
func (s Settings) NearDeadLetters() Topology {
	if s.DeadLettersOff {
		return Topology{}
	}
	s = s.withDefaults()
	return Topology{
		Exchanges: []Exchange{{Name: s.DeadLetterExchange, Kind: Fanout}},
		Queues:    []Queue{{Name: s.NearDeadLetterQueue(), TTL: s.DeadLetterTTL, MaxLength: s.DeadLetterMax}},
		Bindings:  []Binding{{Exchange: s.DeadLetterExchange, Queue: s.NearDeadLetterQueue()}},
	}
}

// Migrate says how to change a shared queue that exists with other arguments than the settings require.
const Migrate = "to change it, stop all nodes, let it be drained (a node with the settings that made it does so, or `troupe dead-letters`), " +
	"delete it (rabbitmqctl delete_queue) and start the nodes: the first one makes it anew"

// WorkerQueueName is the queue of one worker in one incarnation: <prefix>.worker.<worker>.<incarnation>.
func (s Settings) WorkerQueueName(worker messages.WorkerID, i messages.Incarnation) string {
	return s.withDefaults().Prefix + ".worker." + string(worker) + "." + i.String()
}

// PoolQueueName is the queue that all workers of a pool share in one incarnation: <prefix>.worker.<node>/<pool>.<incarnation>.
func (s Settings) PoolQueueName(node, pool string, i messages.Incarnation) string {
	return s.WorkerQueueName(messages.WorkerID(node+"/"+pool), i)
}

// WorkQueue is a worker's or a pool's queue with the given name. The queue expires when its incarnation has been gone
// for twice the TTL. Do not delete it earlier, because that would drop its messages.
func (s Settings) WorkQueue(name string) Topology {
	s = s.withDefaults()
	q := Queue{Name: name, Quorum: !s.Classic, Expires: 2 * s.WorkerTTL, MaxLength: s.WorkerQueueMax, Expendable: true}
	if !s.DeadLettersOff {
		q.TTL, q.DeadLetterExchange = s.WorkerTTL, s.DeadLetterExchange
	}
	return Topology{Queues: []Queue{q}}
}

// Expiration returns the message expiration of a placement whose action may run for timeout: timeout, if it is shorter
// than the queue's TTL. 0 means that only the queue's TTL holds, or that dead letters are off and no message may
// expire.
func (s Settings) Expiration(timeout time.Duration) time.Duration {
	s = s.withDefaults()
	if s.DeadLettersOff || timeout <= 0 || timeout >= s.WorkerTTL {
		return 0
	}
	return timeout
}

// ExpiresAfter returns how long an expired placement waited on its worker's queue. own is its message's expiration; 0:
// none.
func (s Settings) ExpiresAfter(own time.Duration) time.Duration {
	ttl := s.withDefaults().WorkerTTL
	if own > 0 {
		ttl = min(ttl, own)
	}
	return ttl
}

// WorkerTTLShort is the TTL below which work may expire while its worker is busy with slow work.
const WorkerTTLShort = 2 * time.Minute

// Warnings returns warnings about the settings for an operator.
func (s Settings) Warnings() []string {
	s = s.withDefaults()
	var warnings []string
	if s.DeadLettersOff {
		warnings = append(warnings, "dead letters are off: worker queues are declared without a TTL, because expired "+
			"messages would be lost; only the sweep over claim_by takes work back")
	}
	if s.WorkerTTL < WorkerTTLShort {
		warnings = append(warnings, fmt.Sprintf("the TTL of worker queues is %v: below %v slow work expires before a "+
			"busy worker comes to it; set message_queue.rabbitmq.worker_queue_ttl_ms to 2 to 5 times the typical run time",
			s.WorkerTTL, WorkerTTLShort))
	}
	return warnings
}

// Check refuses a topology in which a queue has a TTL but no dead-letter exchange (ErrNoDeadLetter), naming each such
// queue. The dead-letter queue itself may drop expired messages.
func (s Settings) Check(t Topology) error {
	last := s.DeadLetterQueue()
	var problems []error
	for _, q := range t.Queues {
		if q.TTL > 0 && q.DeadLetterExchange == "" && q.Name != last {
			problems = append(problems, fmt.Errorf("queue %s is refused: TTL %v: %w: give it one or no TTL",
				q.Name, q.TTL, ErrNoDeadLetter))
		}
	}
	return errors.Join(problems...)
}

// QueueOwner is the owner of a queue by the queue's name.
type QueueOwner struct {
	Node        string
	Pool        string
	Slot        messages.Slot // -1: all workers of the pool share the queue
	Incarnation messages.Incarnation
}

// ParseQueueName is the inverse of WorkerQueueName and PoolQueueName; ok is false for any other name.
func (s Settings) ParseQueueName(name string) (owner QueueOwner, ok bool) {
	rest, found := strings.CutPrefix(name, s.withDefaults().Prefix+".worker.")
	dot := strings.LastIndexByte(rest, '.')
	if !found || dot < 0 {
		return QueueOwner{}, false
	}
	incarnation, err := messages.ParseIncarnation(rest[dot+1:])
	if err != nil {
		return QueueOwner{}, false
	}
	parts := strings.Split(rest[:dot], "/")
	owner = QueueOwner{Node: parts[0], Slot: -1, Incarnation: incarnation}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return QueueOwner{}, false
	}
	owner.Pool = parts[1]
	if len(parts) == 3 {
		slot, err := strconv.ParseInt(parts[2], 10, 32)
		if err != nil || slot < 0 {
			return QueueOwner{}, false
		}
		owner.Slot = messages.Slot(slot)
	}
	return owner, true
}
