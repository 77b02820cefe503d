package actors

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/rules/throttle"
)

// Repeated logs one message that others can cause as often as they like: at once, and then at most once a minute, with how
// many were left out. What is left out is counted in the metrics and kept in its table. The zero value is ready; all methods
// are safe for concurrent use.
type Repeated struct {
	mu   sync.Mutex
	gate throttle.Gate
}

// Warn writes the message, unless one like it was written within the minute.
func (r *Repeated) Warn(logger hclog.Logger, text string, args ...any) {
	r.log(logger, hclog.Warn, text, args)
}

// Error does the same for what nobody should have been able to cause.
func (r *Repeated) Error(logger hclog.Logger, text string, args ...any) {
	r.log(logger, hclog.Error, text, args)
}

func (r *Repeated) log(logger hclog.Logger, level hclog.Level, text string, args []any) {
	r.mu.Lock()
	pass, withheld := r.gate.Pass(time.Now())
	r.mu.Unlock()
	if pass {
		logger.Log(level, text, append(args, throttle.LeftOut(withheld)...)...)
	}
}
