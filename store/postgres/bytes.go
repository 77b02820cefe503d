package postgres

import (
	"iter"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Bounds in bytes. A result may have 8 MiB, and the server compresses what it stores. A statement with hundreds of such
// results would not fit into a message and would not end within statementTimeout.
const (
	statementBytes   = 8 << 20
	transactionBytes = 16 << 20 // of a group of calls, and of one transaction
)

// chunks divides rows for the server into parts of at most rows rows. A part with more than one row has at most limit
// bytes. A row that is joined to the one before it stays in its part (nil: none is). The parts share the memory of all.
func chunks[T any](all []T, rows, limit int, size func(*T) int, joined func(before, it *T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		from, bytes := 0, 0
		for i := range all {
			n := size(&all[i])
			full := i > from && (i-from >= rows || bytes+n > limit)
			if full && (joined == nil || !joined(&all[i-1], &all[i])) {
				if !yield(all[from:i:i]) {
					return
				}
				from, bytes = i, 0
			}
			bytes += n
		}
		if from < len(all) {
			yield(all[from:len(all):len(all)])
		}
	}
}

// size estimates the bytes of an edge's parameters.
func (e *edge) size() int { return store.Size(e.change) }

func itemSize(it **item) int { return store.Size((*it).change) }

func callSize(c *applyCall) (n int) {
	for _, change := range c.changes {
		n += store.Size(change)
	}
	return n
}

func executionsSize(all []messages.Execution) (n int) {
	for i := range all {
		n += store.ExecutionSize(&all[i])
	}
	return n
}
