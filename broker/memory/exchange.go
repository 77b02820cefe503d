package memory

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/broker"
)

// exchange is one routing rule with its bindings, guarded by server.mu.
type exchange struct {
	name     string
	kind     broker.ExchangeKind
	bindings []binding
}

type binding struct {
	queue *queue
	key   string
	words []string // words of the key, for topic exchanges
}

func (e *exchange) bind(q *queue, key string) {
	for _, b := range e.bindings {
		if b.queue == q && b.key == key {
			return
		}
	}
	e.bindings = append(e.bindings, binding{queue: q, key: key, words: strings.Split(key, ".")})
}

func (e *exchange) unbind(q *queue) {
	e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return b.queue == q })
}

func (e *exchange) route(key string, into []*queue) []*queue {
	var room [16]string
	words := room[:0]
	if e.kind == broker.Topic {
		for word := range strings.SplitSeq(key, ".") {
			words = append(words, word)
		}
	}
	for i := range e.bindings {
		b := &e.bindings[i]
		if e.takes(b, key, words) && !slices.Contains(into, b.queue) {
			into = append(into, b.queue)
		}
	}
	return into
}

func (e *exchange) takes(b *binding, key string, words []string) bool {
	switch e.kind {
	case broker.Fanout:
		return true
	case broker.Topic:
		return matchTopic(b.words, words)
	default:
		return b.key == key
	}
}

// matchTopic reports whether the words of a routing key match a pattern in which * matches one word and # any number of
// words. It backtracks only to the latest #, so it takes at most len(pattern) × len(words) steps.
func matchTopic(pattern, words []string) bool {
	p, w := 0, 0
	hash, from := -1, 0 // the latest #, and the first word after those that it matches
	for w < len(words) {
		switch {
		case p < len(pattern) && pattern[p] == "#":
			hash, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == "*" || pattern[p] == words[w]):
			p++
			w++
		case hash >= 0:
			from++
			p, w = hash+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "#" {
		p++
	}
	return p == len(pattern)
}
