package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a comparison.
const (
	differentRows    = 100_000 // counts of each range
	differentPages   = 20      // of the journal, for each part of it
	differentEntries = 1000    // of a page
)

// Differences says what is different in a time from the same length before it. Each part of what is recorded is compared where it is known
// of both times whole. A note says what is not, and why.
func (q *executions) Differences(ctx context.Context, from, to time.Time) (*differences.Differences, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	c := comparison{q: q, now: now, Differences: differences.New(rollup.Compare(from, to, now.Add(-seriesKnown), keptFrom(now, q.cfg.Counted)))}
	nodes, err := q.cfg.Store.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		c.Name(nodes[i].Incarnation.String(), nodes[i].Name)
	}
	for _, read := range []func(context.Context) error{c.counts, c.entries} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return c.Done(), nil
}

// comparison reads what is recorded of a time and of the one before.
type comparison struct {
	*differences.Differences
	q   *executions
	now time.Time
}

func (c *comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// kept reports whether what is kept for a time is there of both ranges, and notes where it is not.
func (c *comparison) kept(what string, since time.Time) bool {
	if c.Before.Before(since) {
		c.note("%s are not compared: what is from before %s is deleted", what, since.UTC().Format(time.RFC3339))
		return false
	}
	return true
}

func (c *comparison) counts(ctx context.Context) error {
	kept := rollup.Kept{Minutes: keptFrom(c.now, c.q.cfg.Counted), Hours: keptFrom(c.now, c.q.cfg.Hours)}
	since := kept.Minutes
	if kept.Hours.Before(since) {
		since = kept.Hours
	}
	if !c.kept("executions", since) {
		return nil
	}
	for _, span := range [2][2]time.Time{{c.From, c.To}, {c.Before, c.From}} {
		cut, err := c.q.readSpan(ctx, store.RollupQuery{From: span[0], To: span[1]}, c.now, differentRows, c.Row)
		if err != nil {
			return err
		}
		if !cut.IsZero() {
			c.Uncount()
			c.note("executions are not compared: there are more counts than are read for one answer; give a shorter range")
			return nil
		}
	}
	return nil
}

// entries reads the journal part by part: of some kinds there are so many that they would hide the others.
func (c *comparison) entries(ctx context.Context) error {
	ends := map[messages.Incarnation]time.Time{}
	add := func(list []messages.JournalEntry) { c.addEntries(list, ends) }
	for _, part := range []struct {
		what  string
		kinds []messages.JournalKind
		kept  time.Duration
		since time.Duration // before the range before
		add   func([]messages.JournalEntry)
	}{
		{"nodes, servers and commands", []messages.JournalKind{
			messages.JournalNode, messages.JournalServer, messages.JournalRouter, messages.JournalOperator, messages.JournalMark, messages.JournalGap,
		}, c.q.cfg.Recorded, 0, add},
		{"sessions", []messages.JournalKind{messages.JournalSession}, c.q.cfg.Recorded, 0, add},
		{"workers", []messages.JournalKind{messages.JournalWorker}, c.q.cfg.Transitions, 0, add},
		{"conditions of pools", []messages.JournalKind{messages.JournalPool}, c.q.cfg.Recorded, journal.ConditionLasts, func(list []messages.JournalEntry) { c.Conditions(list, ends) }},
	} {
		if !c.kept(part.what, keptFrom(c.now, part.kept)) {
			continue
		}
		list, more, err := c.readEntries(ctx, store.JournalQuery{Kinds: part.kinds, From: c.Before.Add(-part.since), To: c.To, Limit: differentEntries})
		switch {
		case err != nil:
			return err
		case more:
			c.note("%s are not compared: there are more entries than are read for one answer; give a shorter range", part.what)
		default:
			part.add(list)
		}
	}
	return nil
}

func (c *comparison) addEntries(list []messages.JournalEntry, ends map[messages.Incarnation]time.Time) {
	for i := range list {
		e := &list[i]
		c.Entry(e)
		if inc, err := messages.ParseIncarnation(e.Subject); err == nil && e.Kind == messages.JournalNode && (e.What == "stopped" || e.What == "dead" || e.What == "fenced") {
			ends[inc] = e.At
		}
	}
}

// readEntries reads entries by time, and reports whether there are more than it reads.
func (c *comparison) readEntries(ctx context.Context, q store.JournalQuery) (list []messages.JournalEntry, more bool, err error) {
	for range differentPages {
		page, err := c.q.Journal(ctx, q)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page.Entries...)
		if q.After = page.Next; q.After.IsZero() {
			return list, false, nil
		}
	}
	return nil, true, nil
}
