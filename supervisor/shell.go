package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/rules/roster"
)

// shell is what the three parts of a pool share: its configuration, their way out, and what is gathered while one message
// is handled, so that many small wishes become one transaction.
type shell struct {
	cfg          *PoolConfig
	memory       *Memory
	cell         *actors.Cell
	self         *actor.PID
	actor        actor.Context // of this actor, the same from its start to its end
	world        actors.World
	workerConfig *actors.WorkerConfig // what new workers get
	draining     bool
	items        []actors.Item     // for the recorder
	acks         []broker.Delivery // to be settled
}

// send posts a message to another actor.
func (s *shell) send(to *actor.PID, message any) { s.actor.Send(to, message) }

// record has a change written with all others of this message.
func (s *shell) record(item actors.Item) { s.items = append(s.items, item) }

// ack settles a delivery once what this message has to record is on its way.
func (s *shell) ack(d broker.Delivery) { s.acks = append(s.acks, d) }

// halts reports whether a server is known to be away.
func (s *shell) halts() bool { return s.cfg.Halted != nil && s.cfg.Halted() != roster.Ready }

// jitter spreads an interval by a tenth either way.
func (s *shell) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*s.world.Random()))
}

// retryAfter is how long a question waits that the store did not answer.
func (s *shell) retryAfter() time.Duration {
	return time.Second + time.Duration(s.world.Random()*float64(time.Second))
}

// storedTime is a moment of this process as the store's clock shows it; zero stays zero.
func (s *shell) storedTime(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return s.cfg.Clock.Stored(at)
}

// storeTimeout bounds one question to the store beside the pool.
const storeTimeout = 10 * time.Second

func stopTimer(t actors.Timer) {
	if t != nil {
		t.Stop()
	}
}

// firstWarns is the level of a failure: the first of a row is worth a warning.
func firstWarns(first bool) hclog.Level {
	if first {
		return hclog.Warn
	}
	return hclog.Debug
}
