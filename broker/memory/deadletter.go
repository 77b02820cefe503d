package memory

import (
	"time"

	"github.com/troupe-run/troupe/broker"
)

// corpse is a message that left its queue without being acked.
type corpse struct {
	entry  *entry
	reason broker.DeathReason
}

// bury publishes dead letters to the exchanges that their queues name. Burying can expire others at the head of a
// queue that was full, so it goes on until nothing is dead; route refuses cycles, so that ends.
func (s *server) bury(dead []corpse) {
	for len(dead) > 0 {
		s.mu.RLock()
		w := writer{server: s, now: s.now(), left: len(dead)}
		for _, d := range dead {
			s.buryOne(&w, d)
		}
		dead = w.finish()
		s.mu.RUnlock()
	}
}

func (s *server) buryOne(w *writer, d corpse) {
	q := d.entry.queue
	if q.spec.DeadLetterExchange == "" {
		return
	}
	m, deaths := d.letter(time.Now().UTC())
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

// letter is the message as it is published again, with its history.
func (d corpse) letter(at time.Time) (broker.Message, []broker.Death) {
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

// cycles reports whether the message would come back to a queue without anybody having rejected it on the way. As in
// RabbitMQ such a message is dropped, or two queues would pass it back and forth for ever.
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
