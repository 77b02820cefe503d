package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a series of what keyframes have.
const (
	samplesStep = 5 * time.Minute // a keyframe is stored as often
	samplesMax  = 150             // points
)

// samples returns a series of what the nodes were at the end of each point, by the keyframes of the minutes before.
func (q *executions) samples(ctx context.Context, query rollup.Query, now time.Time) (*rollup.Series, error) {
	query.Least, query.Points = samplesStep, min(query.Points, samplesMax)
	s := rollup.NewSeries(query)
	if s.Until.After(now) {
		s.Until = now
	}
	if from := keptFrom(now, q.cfg.Recorded); !from.IsZero() {
		s.KnownFrom = &from
	}
	begins := s.From
	for i, at := range s.Ends() {
		if !begins.Before(now) {
			break
		}
		if begins = at; at.After(now) {
			at = now
		}
		// What became of it since the last note may be noted yet.
		live := at.After(now.Add(-samplesStep))
		stored, err := q.cfg.Store.ReadKeyframes(ctx, store.KeyframeQuery{From: at.Add(-keyframe.Ahead), To: at})
		if err != nil {
			return nil, err
		}
		frames := q.decoded(stored)
		if len(frames) == 0 {
			s.Unnoted(i)
		}
		if newest := newestAt(frames); live && !newest.IsZero() {
			s.Until = newest
		}
		samplePools(s, i, query.Metric, keyframe.Newest(frames))
	}
	return s.Done(), nil
}

// newestAt is when the newest of some keyframes was stored; zero: there is none.
func newestAt(frames []keyframe.Stored) (at time.Time) {
	for i := range frames {
		if frames[i].At.After(at) {
			at = frames[i].At
		}
	}
	return at
}

// decoded are the keyframes that can be read.
func (q *executions) decoded(stored []store.Keyframe) (list []keyframe.Stored) {
	for i := range stored {
		f, err := keyframe.Decode(stored[i].Frame)
		if err != nil {
			q.cfg.Logger.Debug("keyframe cannot be read, so a series lacks its node", "incarnation", stored[i].Incarnation, "at", stored[i].At, "error", err)
			continue
		}
		list = append(list, keyframe.Stored{Incarnation: stored[i].Incarnation, At: stored[i].At, Frame: f})
	}
	return list
}

func samplePools(s *rollup.Series, point int, metric rollup.Metric, pools []keyframe.Pool) {
	if metric == rollup.MetricWaiting {
		for name, n := range keyframe.Waiting(pools) {
			s.Sample(point, name, "", int64(n))
		}
		return
	}
	for i := range pools {
		sampleWorkers(s, point, metric, &pools[i])
	}
}

func sampleWorkers(s *rollup.Series, point int, metric rollup.Metric, p *keyframe.Pool) {
	counts := map[lifecycle.State]int64{}
	for i := range p.Slots {
		if p.Slots[i].Used {
			counts[p.Slots[i].State]++
		}
	}
	for state, n := range counts {
		if metric == rollup.MetricSlots || state == lifecycle.Busy {
			s.Sample(point, p.Name, state.String(), n)
		}
	}
}
