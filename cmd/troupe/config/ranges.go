package config

import (
	"math"
	"strconv"
	"time"
)

// span is what a number may be, both ends included. Durations are in seconds.
type span struct{ min, max float64 }

const (
	dayLong  = 24 * 3600
	yearLong = 366 * dayLong
)

// spanOf is the bounds of a key's value; nil: it has none.
func spanOf(path string) *span {
	if s, ok := spans[path]; ok {
		return &s
	}
	return nil
}

// spans bounds every number and duration but those that a runtime bounds. A key that is not here is a broken build: TestEverySpan says so.
var spans = map[string]span{
	"node.beat_interval": {0.05, 60},
	"node.lease":         {0.2, 600},
	"store.outage_grace": {1, 30 * dayLong},
	"message_queue.rabbitmq.worker_queue_ttl_ms": {0.05, dayLong},
	"message_queue.rabbitmq.dead_letter.ttl_ms":  {1, 30 * dayLong},
	"executor.scheduled_timeout":                 {1, 2 * dayLong},
	"executor.timeout_check_interval":            {0.1, 3600},
	"executor.health_check_interval":             {0.1, 3600},
	"executor.default_timeout":                   {0.1, 30 * dayLong},
	"executor.claim_timeout":                     {0.1, 3600},
	"executor.no_worker_deadline":                {0.1, 30 * dayLong},
	"worker.heartbeat_interval":                  {0.1, 3600},
	"worker.heartbeat_staleness_multiplier":      {1.5, 100},
	"worker.shutdown_timeout":                    {0.1, dayLong},
	"worker.init_timeout":                        {0.1, 3600},
	"worker.cancel_grace":                        {0.01, 600},
	"worker.term_grace":                          {0.01, 600},
	"worker.session_timeout":                     {1, 30 * dayLong},
	"worker.session_sweep_interval":              {0.1, 3600},
	"pool.restart_intensity":                     {1, 10_000},
	"pool.restart_period":                        {0.1, 3600},
	"pool.backoff_base":                          {0.001, 3600},
	"pool.backoff_max":                           {0.001, 3600},
	"pool.backoff_reset":                         {0.1, dayLong},
	"retry.base_backoff_secs":                    {0.001, dayLong},
	"retry.max_backoff_secs":                     {0.001, 30 * dayLong},
	"retry.backoff_multiplier":                   {1, 100},
	"retry.jitter_factor":                        {0, 1},
	"retry.max_retries":                          {0, 1000},
	"health.degraded_threshold":                  {1, 1_000_000},
	"health.unhealthy_threshold":                 {1, 1_000_000},
	"health.queue_depth_degraded":                {1, 1_000_000},
	"health.queue_depth_unhealthy":               {1, 1_000_000},
	"health.failure_rate_degraded":               {0.01, 1},
	"health.failure_rate_unhealthy":              {0.01, 1},
	"health.probe_timeout":                       {0.1, 600},
	"health.probe_retry":                         {0.1, 600},
	"health.echo_interval":                       {0.1, 3600},
	"limits.frame":                               {1 << 16, 1 << 28},
	"limits.output":                              {1, 1 << 28},
	"limits.requests":                            {1, 1_000_000},
	"limits.waits":                               {1, 1_000_000},
	"limits.batches":                             {1, 1000},
	"limits.connections":                         {8, 1_000_000},
	"limits.connections_per_address":             {1, 1_000_000},
	"limits.bodies":                              {1 << 22, 1 << 36},
	"retention.executions":                       {0, 10 * yearLong},
	"retention.dead_letters":                     {0, 10 * yearLong},
	"retention.worker_events":                    {0, 10 * yearLong},
	"retention.sessions":                         {0, 10 * yearLong},
	"retention.nodes":                            {0, 10 * yearLong},
	"retention.interval":                         {0.1, dayLong},
	"retention.batch":                            {1, 100_000},
	"shutdown.platform_grace":                    {0, dayLong},
}

// number returns the key's value as spans measures it; ok is false for a key that is no number.
func (k *Key) number() (n float64, ok bool) {
	switch v := k.value.Interface().(type) {
	case time.Duration:
		return v.Seconds(), true
	case Bytes:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func (c *checker) ranges(l *Loaded) {
	for _, k := range l.Keys {
		n, ok := k.number()
		if s := k.span; ok && !(n >= s.min && n <= s.max) {
			c.bad(k.Path, "must be %s to %s", k.bound(s.min), k.bound(s.max))
		}
	}
}

// bound writes a limit in the key's own unit.
func (k *Key) bound(n float64) string {
	switch k.value.Interface().(type) {
	case time.Duration:
		return formatDuration(time.Duration(n*float64(time.Second)), k.Unit)
	case Bytes:
		return Bytes(math.Round(n)).String()
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
