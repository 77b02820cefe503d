package part

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// Shared is what the three parts of a pool share: its configuration, their way out, and what is gathered while one message
// is handled, so that many small wishes become one transaction. It belongs to the pool's actor, and nobody else may use it.
type Shared struct {
	Config       *Config // a reload changes it
	Self         *actor.PID
	Actor        actor.Context // of this actor, the same from its start to its end
	World        actors.World
	WorkerConfig *actors.WorkerConfig // what new workers get
	Draining     bool
	Items        []actors.Item     // for the recorder
	Acks         []broker.Delivery // to be settled
}

// Send posts a message to another actor.
func (s *Shared) Send(to *actor.PID, message any) { s.Actor.Send(to, message) }

// Record has a change written with all others of this message.
func (s *Shared) Record(item actors.Item) { s.Items = append(s.Items, item) }

// Journal records what changed in the pool.
func (s *Shared) Journal(e messages.JournalEntry) {
	if s.Config.Journal != nil {
		s.Config.Journal(e)
	}
}

// Ack settles a delivery once what this message has to record is on its way.
func (s *Shared) Ack(d broker.Delivery) { s.Acks = append(s.Acks, d) }

// Halts reports whether a server is known to be away.
func (s *Shared) Halts() bool { return s.Config.Halted != nil && s.Config.Halted() != roster.Ready }

// Jitter spreads an interval by a tenth either way.
func (s *Shared) Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*s.World.Random()))
}

// RetryAfter is how long a question waits that the store did not answer.
func (s *Shared) RetryAfter() time.Duration {
	return time.Second + time.Duration(s.World.Random()*float64(time.Second))
}

// StoredTime is a moment of this process as the store's clock shows it; zero stays zero.
func (s *Shared) StoredTime(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return s.Config.Clock.Stored(at)
}

const (
	// StoreTimeout bounds one question to the store beside the pool.
	StoreTimeout = 10 * time.Second
	// LeaveTimeout bounds what the end of a drained pool waits for.
	LeaveTimeout = 2 * time.Second
)

// StopTimer stops a timer, where there is one.
func StopTimer(t actors.Timer) {
	if t != nil {
		t.Stop()
	}
}

// FirstWarns is the level of a failure: the first of a row is worth a warning.
func FirstWarns(first bool) hclog.Level {
	if first {
		return hclog.Warn
	}
	return hclog.Debug
}
