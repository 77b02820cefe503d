package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a ledger.
const (
	ledgerTime  = 50 * time.Millisecond // of counting executions, but for the last slice
	ledgerPages = 3                     // of the journal
	ledgerRows  = 20_000                // counts by minute and by hour that are read for each of its parts
)

// Ledger says what became of the executions that were requested in a time, whose ends are taken to whole minutes: nodes count by minute. As
// many executions are counted and compared as are counted within ledgerTime. Of the rest it says what the nodes counted.
func (q *executions) Ledger(ctx context.Context, from, to time.Time) (*rollup.Ledger, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, to = from.Truncate(time.Minute), to.Add(time.Minute-1).Truncate(time.Minute)
	purged, err := q.cfg.Store.CountPurged(ctx, from, to)
	if err != nil {
		return nil, err
	}
	in, err := q.cfg.Store.CountRequested(ctx, store.CountQuery{From: from.Add(-rollup.LedgerBefore), To: to.Add(rollup.LedgerAfter), Within: ledgerTime})
	if err != nil {
		return nil, err
	}
	compared := rollup.LedgerTo(from, to, in.Until)
	l, around := rollup.NewLedger(from, compared, requested(in.Minutes))
	sums, cut, err := q.sums(ctx, from, compared, now)
	if err != nil {
		return nil, err
	}
	gone, err := q.deleted(ctx, from, compared, to, now, purged)
	if err != nil {
		return nil, err
	}
	if l.Restored, l.Lost, err = q.sessions(ctx, from, compared, now); err != nil {
		return nil, err
	}
	l.Compare(sums[rollup.Submitted], around, gone, keptFrom(now, q.cfg.Retains))
	if !cut.IsZero() {
		l.Notes = append(l.Notes, "the nodes' counts are read up to "+cut.UTC().Format(time.RFC3339)+", so later ones are not compared; ask for less time")
	}
	if compared.Before(to) {
		if sums, cut, err = q.sums(ctx, compared, to, now); err != nil {
			return nil, err
		}
		if !cut.IsZero() {
			to = cut
		}
		l.Leave(to, sums)
	}
	return l, nil
}

// deleted says what retention has deleted of a time, the executions of which were counted before up to compared. Before says what it had
// deleted when that began.
func (q *executions) deleted(ctx context.Context, from, compared, to, now time.Time, before store.PurgedCount) (gone rollup.Deleted, err error) {
	purged, err := q.cfg.Store.CountPurged(ctx, from, compared)
	if err != nil {
		return gone, err
	}
	all := purged
	if compared.Before(to) {
		if all, err = q.cfg.Store.CountPurged(ctx, from, to); err != nil {
			return gone, err
		}
	}
	gone = rollup.Deleted{N: purged.N, Around: purged.Before + purged.Behind, During: min(purged.N, max(0, all.N-before.N)), From: purged.From}
	if kept := keptFrom(now, q.cfg.Hours); kept.After(gone.From) {
		gone.From = kept // as long as the numbers are kept
	}
	return gone, nil
}

// sessions counts how often the state of sessions was restored and lost in a time, by the journal.
func (q *executions) sessions(ctx context.Context, from, to, now time.Time) (restored, lost rollup.SessionCount, err error) {
	query := store.JournalQuery{
		Kinds: []messages.JournalKind{messages.JournalSession, messages.JournalGap}, Whats: []string{journal.SessionRestored, journal.SessionLost, journal.Dropped},
		From: from, To: to, Limit: 1000,
	}
	restored.AtLeast = from.Before(keptFrom(now, q.cfg.Recorded))
	for range ledgerPages {
		page, err := q.cfg.Store.ReadJournal(ctx, query)
		if err != nil {
			return restored, lost, err
		}
		for i := range page.Entries {
			switch e := &page.Entries[i]; {
			case e.Kind == messages.JournalSession && e.What == journal.SessionLost:
				lost.N++
			case e.Kind == messages.JournalSession:
				restored.N++
			case e.Subject == string(messages.JournalSession):
				restored.AtLeast = true
			}
		}
		if query.After = page.Next; query.After.IsZero() {
			lost.AtLeast = restored.AtLeast
			return restored, lost, nil
		}
	}
	restored.AtLeast, lost.AtLeast = true, true
	return restored, lost, nil
}

// sums adds up what the nodes counted in a time, by how it ended. Cut is where it has met its bound; zero: it has read all.
func (q *executions) sums(ctx context.Context, from, to, now time.Time) (sums rollup.Sums, cut time.Time, err error) {
	sums = rollup.Sums{}
	cut, err = q.readSpan(ctx, store.RollupQuery{From: from, To: to, Bare: true}, now, ledgerRows, sums.Add)
	return sums, cut, err
}

func requested(counts []store.MinuteCount) []rollup.Requested {
	list := make([]rollup.Requested, len(counts))
	for i, c := range counts {
		list[i] = rollup.Requested(c)
	}
	return list
}
