package health

// Input is one thing that grades a worker, with its borders.
type Input struct {
	Cause Causes // what it is a cause of, where its grade is not healthy
	Value float64
	None  bool // there is no value yet, as of a heartbeat
	// Degraded and Unhealthy are the values from which the grade is so; 0: it has no such border. A heartbeat is stale above its border, in
	// seconds.
	Degraded, Unhealthy float64
	Grade               Grade
	Ignored             bool // it does not count: health is off
}

// Inputs returns what Evaluate looks at, in the order of the causes. The worst grade of those that count is that of Evaluate.
func Inputs(t Thresholds, s Sample) []Input {
	t = t.WithDefaults()
	limit := s.HeartbeatLimit
	if limit <= 0 {
		limit = t.Heartbeat
	}
	beat := Input{Cause: HeartbeatStale, Value: s.HeartbeatAge.Seconds(), None: !s.HeartbeatSeen, Unhealthy: limit.Seconds(), Grade: Healthy}
	if fresh, _ := Fresh(s.HeartbeatAge, s.HeartbeatSeen, limit); !fresh {
		beat.Grade = Unhealthy
	}
	list := []Input{
		beat,
		{Cause: FailuresInRow, Value: float64(s.Failures), Degraded: float64(t.FailuresDegraded), Unhealthy: float64(t.FailuresUnhealthy),
			Grade: step(s.Failures, t.FailuresDegraded, t.FailuresUnhealthy)},
		{Cause: QueueDepth, Value: float64(s.QueueDepth), Degraded: float64(t.QueueDepthDegraded), Unhealthy: float64(t.QueueDepthUnhealthy),
			Grade: step(s.QueueDepth, t.QueueDepthDegraded, t.QueueDepthUnhealthy)},
		{Cause: FailureRate, Value: s.FailureRate, Degraded: t.FailureRateDegraded, Unhealthy: t.FailureRateUnhealthy,
			Grade: step(s.FailureRate, t.FailureRateDegraded, t.FailureRateUnhealthy)},
	}
	if s.StateDegraded {
		list = append(list, Input{Cause: StateDegraded, None: true, Grade: Degraded})
	}
	if s.Reported > Healthy {
		list = append(list, Input{Cause: Reported, None: true, Grade: s.Reported})
	}
	if t.Off {
		for i := range list[1:] {
			list[i+1].Ignored = true
		}
	}
	return list
}
