package memory

import (
	"time"

	"github.com/troupe-run/troupe/broker"
)

// deadMessage is a message that left its queue without being acked.
type deadMessage struct {
	entry  *entry
	reason broker.DeathReason
}

// publishDead publishes dead letters to the exchanges that their queues name. That can expire more messages at the head
// of a full queue, so it repeats until none is left. It ends, because it drops messages that cycle.
func (s *server) publishDead(dead []deadMessage) {
	for len(dead) > 0 {
		s.mu.RLock()
		w := writer{server: s, now: s.now(), left: len(dead)}
		for _, d := range dead {
			s.publishOneDead(&w, d)
		}
		dead = w.finish()
		s.mu.RUnlock()
	}
}

func (s *server) publishOneDead(w *writer, d deadMessage) {
	q := d.entry.queue
	if q.spec.DeadLetterExchange == "" {
		return
	}
	m, deaths := d.deadLetter(time.Now().UTC())
	var room [8]*queue
	taken := false
	for _, target := range s.route(m.Exchange, m.RoutingKey, room[:0]) {
		if !cycles(deaths, target.spec.Name) && w.put(target, &m, deaths) {
			taken = true
		}
	}
	if !taken {
		s.dropped.Add(1)
	}
}

// deadLetter returns the message to publish, with its history.
func (d deadMessage) deadLetter(at time.Time) (broker.Message, []broker.Death) {
	m := d.entry.message
	death := broker.Death{
		Reason: d.reason, Queue: d.entry.queue.spec.Name, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
		At: at, Count: 1, Expiration: m.Expiration,
	}
	deaths := make([]broker.Death, 1, 1+len(d.entry.deaths))
	for _, old := range d.entry.deaths {
		if old.Reason == death.Reason && old.Queue == death.Queue {
			death.Count = old.Count + 1
			continue
		}
		deaths = append(deaths, old)
	}
	deaths[0] = death
	m.Exchange = d.entry.queue.spec.DeadLetterExchange
	m.Expiration = 0
	return m, deaths
}

// cycles reports whether the message would come back to a queue without a rejection on the way. Such a message is
// dropped, as in RabbitMQ. Otherwise two queues could pass it back and forth for ever.
func cycles(deaths []broker.Death, queue string) bool {
	for _, d := range deaths {
		if d.Reason == broker.DeathRejected {
			return false
		}
		if d.Queue == queue {
			return true
		}
	}
	return false
}
