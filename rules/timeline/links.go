package timeline

import (
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// LinksMax bounds the executions of a chain in one answer.
const LinksMax = 50

// Links chooses the executions of a chain that an answer has: from a number on, or, where that is 0, those around the execution itself.
// The chain is given oldest first; more says that there may be younger ones than it has. It also says how long the chain is, and what is
// left out of it.
func Links(chain []messages.Execution, own *messages.Execution, from int, more bool) (kept []messages.Execution, all Retries, left []LeftOut) {
	at := slices.IndexFunc(chain, func(e messages.Execution) bool { return e.ID == own.ID })
	if at < 0 {
		chain, at = append(slices.Clone(chain), *own), len(chain)
	}
	begin := min(max(at-LinksMax/2, 0), max(len(chain)-LinksMax, 0))
	if from > 0 {
		begin = slices.IndexFunc(chain, func(e messages.Execution) bool { return numberOf(&e) >= from })
		if begin < 0 {
			begin = len(chain)
		}
	}
	end := min(begin+LinksMax, len(chain))
	all = Retries{Deleted: chain[0].RetryCount, N: chain[0].RetryCount + len(chain), AtLeast: more}
	if begin > 0 {
		next := numberOf(&chain[max(begin-LinksMax, 0)])
		left = append(left, LeftOut{What: LeftRetries, N: begin, From: chain[0].RequestedAt, To: chain[begin-1].RequestedAt, Next: fmt.Sprintf("links_from=%d", next)})
	}
	if end < len(chain) || more {
		l := LeftOut{What: LeftRetries, N: len(chain) - end, AtLeast: more}
		if end < len(chain) {
			l.From, l.To, l.Next = chain[end].RequestedAt, chain[len(chain)-1].RequestedAt, fmt.Sprintf("links_from=%d", numberOf(&chain[end]))
		}
		left = append(left, l)
	}
	return chain[begin:end], all, left
}

// numberOf is the number of an execution in its chain, from 1. It stays the same when retention deletes the first ones.
func numberOf(e *messages.Execution) int { return e.RetryCount + 1 }
