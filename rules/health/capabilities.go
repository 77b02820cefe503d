package health

import "time"

// Capabilities is a worker's health as it is reported with its heartbeat and shown wherever the worker is shown: the
// value of capabilities.health.
type Capabilities struct {
	Status              Grade      `json:"status"`
	LastCheck           *time.Time `json:"last_check"` // of the last probe; null before the first
	ConsecutiveFailures int        `json:"consecutive_failures"`
	QueueDepth          int        `json:"queue_depth"`
	FailureRate         float64    `json:"failure_rate"` // 0 to 1
	TotalExecutions     uint64     `json:"total_executions"`
	FailedExecutions    uint64     `json:"failed_executions"`
	AverageMillis       float64    `json:"average_execution_time_ms"`
}

// Used reports whether the worker has run something, or has failed since its last success.
func (c *Capabilities) Used() bool { return c.TotalExecutions > 0 || c.ConsecutiveFailures > 0 }

// Sample is what the figures of a report say; the heartbeat and the lifecycle are the caller's to add. The report's grade
// is part of it: its node may have other thresholds.
func (c *Capabilities) Sample() Sample {
	return Sample{
		Failures: c.ConsecutiveFailures, QueueDepth: c.QueueDepth, FailureRate: c.FailureRate, Reported: c.Status,
	}
}

// Describe builds the report of a worker's counters. A zero lastCheck means that no probe has been made.
func Describe(c *Counters, grade Grade, queueDepth int, lastCheck time.Time) Capabilities {
	caps := Capabilities{
		Status:              grade,
		ConsecutiveFailures: c.Failures(),
		QueueDepth:          queueDepth,
		FailureRate:         c.FailureRate(),
		TotalExecutions:     c.Total(),
		FailedExecutions:    c.Failed(),
		AverageMillis:       float64(c.MeanRunTime()) / float64(time.Millisecond),
	}
	if !lastCheck.IsZero() {
		at := lastCheck.UTC()
		caps.LastCheck = &at
	}
	return caps
}
