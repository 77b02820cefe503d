package health

import "time"

// Sample is what one evaluation looks at.
type Sample struct {
	// HeartbeatAge is the store's now minus the last heartbeat; negative: the heartbeat is from the future.
	HeartbeatAge time.Duration
	// HeartbeatSeen is false while no heartbeat is recorded, which is stale whatever the age.
	HeartbeatSeen bool
	// HeartbeatLimit is the worker's own interval × the staleness multiplier; 0: the threshold's.
	HeartbeatLimit time.Duration

	Failures    int     // worker faults in a row
	QueueDepth  int     // placements waiting on the worker
	FailureRate float64 // of the last executions, 0 while too few have run

	// StateDegraded says that the worker's lifecycle is degraded, which is never better than the grade degraded.
	StateDegraded bool
	// Reported is the grade that the worker's own node gave it, by its thresholds and without the heartbeat, where whoever
	// evaluates has no figures or other thresholds; Unknown: none.
	Reported Grade
}

// Report is the result of an evaluation.
type Report struct {
	Grade  Grade
	Causes Causes // of the grade, and HeartbeatFuture as a warning
}

// Evaluate grades a sample: the worst grade that any of its figures has. Zero thresholds are the defaults.
func Evaluate(t Thresholds, s Sample) Report {
	t = t.WithDefaults()
	r := Report{Grade: Healthy}
	limit := s.HeartbeatLimit
	if limit <= 0 {
		limit = t.Heartbeat
	}
	switch fresh, future := Fresh(s.HeartbeatAge, s.HeartbeatSeen, limit); {
	case !fresh:
		r.add(Unhealthy, HeartbeatStale)
	case future:
		r.add(Healthy, HeartbeatFuture)
	}
	if t.Off {
		return r
	}
	r.add(step(s.Failures, t.FailuresDegraded, t.FailuresUnhealthy), FailuresInRow)
	r.add(step(s.QueueDepth, t.QueueDepthDegraded, t.QueueDepthUnhealthy), QueueDepth)
	r.add(step(s.FailureRate, t.FailureRateDegraded, t.FailureRateUnhealthy), FailureRate)
	if s.StateDegraded {
		r.add(Degraded, StateDegraded)
	}
	if s.Reported > r.Grade {
		r.add(s.Reported, Reported)
	}
	return r
}

// Stale reports whether the heartbeat is what excludes the worker.
func (r Report) Stale() bool { return r.Causes&HeartbeatStale != 0 }

// Future reports whether the heartbeat is ahead of the clock that it was compared with.
func (r Report) Future() bool { return r.Causes&HeartbeatFuture != 0 }

// Beat sets the heartbeat that a sample is evaluated by. A zero at means that none is recorded. The limit is the worker's
// own interval times the multiplier; an interval that is not known leaves it to the threshold.
func (s Sample) Beat(now, at time.Time, every time.Duration, multiplier float64) Sample {
	s.HeartbeatSeen = !at.IsZero()
	s.HeartbeatAge = now.Sub(at)
	s.HeartbeatLimit = Limit(every, multiplier)
	return s
}

// FaultGrade grades a sample by the worker's faults alone, in a row and by rate. It is what ends a worker: a deep queue
// or a late heartbeat keeps work away from it and is no reason to replace it.
func FaultGrade(t Thresholds, s Sample) Grade {
	if t.Off {
		return Healthy
	}
	t = t.WithDefaults()
	return step(s.Failures, t.FailuresDegraded, t.FailuresUnhealthy).
		Worse(step(s.FailureRate, t.FailureRateDegraded, t.FailureRateUnhealthy))
}

// Fresh reports whether a heartbeat of the given age counts, and whether it comes from the future (clock skew), which
// is fresh but worth a warning. The limit itself is still fresh; a worker without a heartbeat never is.
func Fresh(age time.Duration, seen bool, limit time.Duration) (fresh, future bool) {
	return seen && age <= limit, seen && age < 0
}

// Limit is how old a worker's heartbeat may be: its own interval times the staleness multiplier.
func Limit(interval time.Duration, multiplier float64) time.Duration {
	return time.Duration(float64(interval) * multiplier)
}

func (r *Report) add(g Grade, c Causes) {
	if g > Healthy || c == HeartbeatFuture {
		r.Causes |= c
	}
	r.Grade = r.Grade.Worse(g)
}

func step[T int | float64](value, degraded, unhealthy T) Grade {
	switch {
	case value >= unhealthy:
		return Unhealthy
	case value >= degraded:
		return Degraded
	}
	return Healthy
}
