package health

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Thresholds are the borders between the grades. Zero fields mean the defaults.
type Thresholds struct {
	// Heartbeat is the oldest fresh heartbeat where a sample names no limit of its own; 30 s (10 s × 3).
	Heartbeat time.Duration
	// FailuresDegraded and FailuresUnhealthy count worker faults in a row; 3 and 10.
	FailuresDegraded  int `yaml:"degraded_threshold" range:"1..1000000" help:"Consecutive failures that make a worker degraded."`
	FailuresUnhealthy int `yaml:"unhealthy_threshold" range:"1..1000000" help:"Consecutive failures that make a worker unhealthy."`
	// QueueDepthDegraded and QueueDepthUnhealthy count placements waiting on the worker; 50 and 100.
	QueueDepthDegraded  int `yaml:"queue_depth_degraded" range:"1..1000000" help:"Queue depth that makes a worker degraded."`
	QueueDepthUnhealthy int `yaml:"queue_depth_unhealthy" range:"1..1000000" help:"Queue depth that makes a worker unhealthy."`
	// FailureRateDegraded and FailureRateUnhealthy are shares of the last executions; 0.3 and 0.7.
	FailureRateDegraded  float64 `yaml:"failure_rate_degraded" range:"0.01..1" help:"Failure rate that makes a worker degraded, 0 to 1."`
	FailureRateUnhealthy float64 `yaml:"failure_rate_unhealthy" range:"0.01..1" help:"Failure rate that makes a worker unhealthy, 0 to 1."`
	// Off leaves the heartbeat alone to grade a worker: nothing that its executions and probes show counts.
	Off bool
}

// Defaults returns the default borders.
func Defaults() Thresholds {
	return Thresholds{
		Heartbeat:        30 * time.Second,
		FailuresDegraded: 3, FailuresUnhealthy: 10,
		QueueDepthDegraded: 50, QueueDepthUnhealthy: 100,
		FailureRateDegraded: 0.3, FailureRateUnhealthy: 0.7,
	}
}

// WithDefaults fills the zero fields.
func (t Thresholds) WithDefaults() Thresholds {
	d := Defaults()
	t.Heartbeat = cmp.Or(t.Heartbeat, d.Heartbeat)
	t.FailuresDegraded = cmp.Or(t.FailuresDegraded, d.FailuresDegraded)
	t.FailuresUnhealthy = cmp.Or(t.FailuresUnhealthy, d.FailuresUnhealthy)
	t.QueueDepthDegraded = cmp.Or(t.QueueDepthDegraded, d.QueueDepthDegraded)
	t.QueueDepthUnhealthy = cmp.Or(t.QueueDepthUnhealthy, d.QueueDepthUnhealthy)
	t.FailureRateDegraded = cmp.Or(t.FailureRateDegraded, d.FailureRateDegraded)
	t.FailureRateUnhealthy = cmp.Or(t.FailureRateUnhealthy, d.FailureRateUnhealthy)
	return t
}

// Validate names every border, defaults filled in, that makes no sense: below zero, or a degraded border that does not
// come before its unhealthy one.
func (t Thresholds) Validate() error {
	t = t.WithDefaults()
	var problems []error
	if t.Heartbeat < 0 {
		problems = append(problems, fmt.Errorf("heartbeat limit must be positive, got %s", t.Heartbeat))
	}
	pair := func(name string, degraded, unhealthy float64) {
		if degraded < 0 || !(degraded < unhealthy) {
			problems = append(problems, fmt.Errorf(
				"health.%s: the degraded border must be positive and below the unhealthy one, got %v and %v",
				name, degraded, unhealthy))
		}
	}
	pair("threshold", float64(t.FailuresDegraded), float64(t.FailuresUnhealthy))
	pair("queue_depth", float64(t.QueueDepthDegraded), float64(t.QueueDepthUnhealthy))
	pair("failure_rate", t.FailureRateDegraded, t.FailureRateUnhealthy)
	if t.FailureRateUnhealthy > 1 {
		problems = append(problems, fmt.Errorf(
			"health.failure_rate_unhealthy must be at most 1, got %v", t.FailureRateUnhealthy))
	}
	return errors.Join(problems...)
}
