package node

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// unitLogger writes every duration with its unit, as in "1.5s": in JSON hclog writes a bare number of nanoseconds. It holds
// for all that a node logs, whatever the key is called.
type unitLogger struct{ hclog.Logger }

// withUnits returns a logger that writes durations with their unit.
func withUnits(l hclog.Logger) hclog.Logger {
	if _, has := l.(unitLogger); has || l == nil {
		return l
	}
	return unitLogger{l}
}

// units replaces the durations among a message's pairs. What has none is passed on as it is.
func units(args []any) []any {
	copied := false
	for i, arg := range args {
		text := ""
		switch d := arg.(type) {
		case time.Duration:
			text = d.String()
		case *time.Duration:
			if d != nil {
				text = d.String()
			}
		}
		if text == "" {
			continue
		}
		if !copied {
			args, copied = append([]any(nil), args...), true
		}
		args[i] = text
	}
	return args
}

// Log implements hclog.Logger.
func (l unitLogger) Log(level hclog.Level, msg string, args ...any) {
	if level >= l.GetLevel() {
		l.Logger.Log(level, msg, units(args)...)
	}
}

// Trace implements hclog.Logger.
func (l unitLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l unitLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l unitLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l unitLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l unitLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// With implements hclog.Logger.
func (l unitLogger) With(args ...any) hclog.Logger { return unitLogger{l.Logger.With(units(args)...)} }

// Named implements hclog.Logger.
func (l unitLogger) Named(name string) hclog.Logger { return unitLogger{l.Logger.Named(name)} }

// ResetNamed implements hclog.Logger.
func (l unitLogger) ResetNamed(name string) hclog.Logger {
	return unitLogger{l.Logger.ResetNamed(name)}
}
