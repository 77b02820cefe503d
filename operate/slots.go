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
		stored, err := q.cfg.Store.ReadKeyframes(ctx, store.KeyframeQuery{From: at.Add(-keyframe.Ahead), To: at})
		if err != nil {
			return nil, err
		}
		for _, pool := range keyframe.Newest(q.decoded(stored)) {
			samplePool(s, i, query.Metric, &pool)
		}
	}
	return s.Done(), nil
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

func samplePool(s *rollup.Series, point int, metric rollup.Metric, p *keyframe.Pool) {
	if metric == rollup.MetricWaiting {
		s.Sample(point, p.Name, "", int64(p.Waiting))
		return
	}
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
