package operate

import (
	"context"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a series.
const (
	seriesRows  = 200_000          // that are read for one
	digestRows  = 100_000          // of each range
	seriesSpans = 200              // times that are read for one, by the minute and by the hour in turn
	seriesKnown = 12 * time.Second // how long after an event its count is in the store
)

// Series returns what the nodes counted: in steps of an hour or more, what is kept by the hour, and by the minute what is not added up yet.
// Of a time that begins before the minutes that are kept, steps are not shorter. Where it is more than is read for one answer, Until says up
// to when it is known.
func (q *executions) Series(ctx context.Context, query rollup.Query) (*rollup.Series, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if query.Metric.Sampled() {
		return q.samples(ctx, query, now)
	}
	kept := rollup.Kept{Minutes: keptFrom(now, q.cfg.Counted), Hours: keptFrom(now, q.cfg.Hours)}
	if query.From.Before(kept.Minutes) {
		query.Least = time.Hour
	}
	s := rollup.NewSeries(query)
	if known := now.Add(-seriesKnown); s.Until.After(known) {
		s.Until = known
	}
	if from := kept.From(s.Step()); !from.IsZero() {
		s.KnownFrom = &from
	}
	cut, rows := time.Time{}, store.RollupQuery{From: s.From, To: query.To, Bare: !query.Metric.Timed()}
	if s.Step() >= time.Hour {
		cut, err = q.readHours(ctx, rows, kept, seriesRows, s.Add)
	} else {
		_, cut, err = q.readRows(ctx, rows, seriesRows, s.Add)
	}
	if err != nil {
		return nil, err
	}
	if !cut.IsZero() {
		s.Until = cut
	}
	return s.Done(), nil
}

// keptFrom is from when on is kept what is kept for a time; zero: all.
func keptFrom(now time.Time, kept time.Duration) time.Time {
	if kept <= 0 {
		return time.Time{}
	}
	return now.Add(-kept)
}

// readHours gives the counts of a time from a whole hour on: what is kept by the hour, and by the minute what is not added up yet, up to about
// so many. Cut is where it has met a bound; zero: it has read all.
func (q *executions) readHours(ctx context.Context, rows store.RollupQuery, kept rollup.Kept, room int, each func(*rollup.Row)) (cut time.Time, err error) {
	stored, err := q.cfg.Store.RollupFolds(ctx, store.FoldQuery{From: rows.From, To: rows.To})
	if err != nil {
		return cut, err
	}
	folds, to := make([]rollup.Fold, len(stored)), rows.To
	for i, f := range stored {
		folds[i] = rollup.Fold{Hour: f.Hour, Made: f.Folded >= 0, Whole: f.Folded == f.Version}
	}
	for i, span := range rollup.Spans(rows.From, to, folds, kept) {
		if i == seriesSpans || room <= 0 {
			return span.From, nil
		}
		read := q.readRows
		if span.Hours {
			read = q.readHourRows
		}
		rows.From, rows.To = span.From, span.To
		n, cut, err := read(ctx, rows, room, each)
		if err != nil || !cut.IsZero() {
			return cut, err
		}
		room -= n
	}
	if hour := to.Truncate(time.Hour); hour.Before(to) && hour.Before(kept.Minutes) {
		return hour, nil // of its last hour only a part is asked for, and its minutes are deleted
	}
	return cut, nil
}

// readSpan gives the counts of a time from a whole minute on: by the minute up to its first whole hour, and from there as readHours does, up to
// about so many of each. Cut is where it has met a bound; zero: it has read all.
func (q *executions) readSpan(ctx context.Context, rows store.RollupQuery, now time.Time, room int, each func(*rollup.Row)) (cut time.Time, err error) {
	to, hour := rows.To, rows.From.Truncate(time.Hour)
	if hour.Before(rows.From) {
		hour = hour.Add(time.Hour)
	}
	if hour.After(to) {
		hour = to
	}
	rows.To = hour
	n, cut, err := q.readRows(ctx, rows, room, each)
	if err != nil || !cut.IsZero() || !hour.Before(to) {
		return cut, err
	}
	rows.From, rows.To = hour, to
	kept := rollup.Kept{Minutes: keptFrom(now, q.cfg.Counted), Hours: keptFrom(now, q.cfg.Hours)}
	return q.readHours(ctx, rows, kept, max(1, room-n), each)
}

// Digest returns what the counts say at first sight of a time against the same length before it, and how much is done now. A time without an
// end is the last hour.
func (q *executions) Digest(ctx context.Context, from, to time.Time) (*rollup.Digest, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	kept := rollup.Kept{Minutes: keptFrom(now, q.cfg.Counted), Hours: keptFrom(now, q.cfg.Hours)}
	known := now.Add(-seriesKnown)
	if to.IsZero() {
		to = known.Truncate(time.Minute).Add(time.Minute)
		from = to.Add(-rollup.DigestSpan)
	}
	of := rollup.Compare(from, to, known, kept.Minutes)
	d := rollup.NewDigest(of, known)
	d.Partial = of.Before.Before(kept.From(time.Hour))
	if err := q.rates(ctx, d); err != nil {
		return nil, err
	}
	for _, span := range [2][2]time.Time{{of.From, of.To}, {of.Before, of.From}} {
		cut, err := q.readSpan(ctx, store.RollupQuery{From: span[0], To: span[1]}, now, digestRows, d.Add)
		if err != nil {
			return nil, err
		}
		d.Partial = d.Partial || !cut.IsZero()
	}
	return d.Done(), nil
}

// rates reads the minutes of a digest's rates.
func (q *executions) rates(ctx context.Context, d *rollup.Digest) error {
	_, cut, err := q.readRows(ctx, store.RollupQuery{From: d.From, To: d.To}, digestRows, d.AddRate)
	d.Partial = d.Partial || !cut.IsZero()
	return err
}

// readRows gives each row of a time, by their minutes, up to about so many. Cut is the minute at which it has met that bound; zero: it
// has read all.
func (q *executions) readRows(ctx context.Context, rows store.RollupQuery, most int, each func(*rollup.Row)) (n int, cut time.Time, err error) {
	return readPages(ctx, q.cfg.Store.ReadRollups, rows, most, counted(each))
}

// readHourRows is readRows of hours.
func (q *executions) readHourRows(ctx context.Context, rows store.RollupQuery, most int, each func(*rollup.Row)) (n int, cut time.Time, err error) {
	return readPages(ctx, q.cfg.Store.ReadRollupHours, rows, most, counted(each))
}

// counted gives what a stored row has counted, in a row that has the next one afterwards.
func counted(each func(*rollup.Row)) func(*store.Rollup) {
	var row rollup.Row
	return func(r *store.Rollup) {
		row = rowOf(r)
		each(&row)
	}
}

type readPage func(context.Context, store.RollupQuery) (store.RollupPage, error)

func readPages(ctx context.Context, read readPage, q store.RollupQuery, most int, each func(*store.Rollup)) (n int, cut time.Time, err error) {
	for {
		page, err := read(ctx, q)
		if err != nil {
			return n, cut, err
		}
		for i := range page.Rows {
			each(&page.Rows[i])
		}
		if n += len(page.Rows); !page.More {
			return n, cut, nil
		}
		last := page.Rows[len(page.Rows)-1]
		if q.After = &last; n >= most {
			return n, last.Minute, nil
		}
	}
}

// FoldHour adds the minutes of an hour up, and stores its rows as those of a version of it.
func FoldHour(ctx context.Context, s store.Rollups, f store.Fold) error {
	hour := rollup.NewHour(f.Hour)
	if _, _, err := readPages(ctx, s.ReadRollups, store.RollupQuery{From: f.Hour, To: f.Hour.Add(time.Hour)}, math.MaxInt, counted(hour.Add)); err != nil {
		return err
	}
	return s.FoldRollups(ctx, f.Hour, f.Version, StoredRows(messages.Incarnation{}, hour.Rows()))
}

// StoredRows are rows as the store has them, of the incarnation that counted; zero: of an hour.
func StoredRows(inc messages.Incarnation, counted []rollup.Row) []store.Rollup {
	rows := make([]store.Rollup, len(counted))
	for i := range counted {
		c := &counted[i]
		rows[i] = store.Rollup{Minute: c.Minute, Incarnation: inc, Pool: c.Pool, Action: c.Action, Version: c.Version, Status: c.Status, Code: string(c.Code), N: c.N,
			Wait: c.Wait.Encode(), Run: c.Run.Encode()}
	}
	return rows
}

func rowOf(r *store.Rollup) rollup.Row {
	return rollup.Row{
		Minute: r.Minute, N: r.N, Wait: rollup.Decode(r.Wait), Run: rollup.Decode(r.Run),
		Key: rollup.Key{Pool: r.Pool, Action: r.Action, Version: r.Version, Status: r.Status, Code: messages.Code(r.Code)},
	}
}
