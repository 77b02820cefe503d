// Package corego holds the Go handlers of the core pack: the functions behind core.echo and the others. It knows only
// parameters and a context, not workers or executions. The node registers each handler under the name in its action's
// entrypoint.
package corego

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Handler runs one execution. params is the parameters as JSON, or empty. The context ends with a cancel or at the
// deadline. The result is any value that encodes to JSON.
type Handler func(ctx context.Context, params json.RawMessage) (any, error)

// Failure is the error that Fail returns: an execution's error as requested by its parameters.
type Failure struct {
	Code      string
	Message   string
	Retriable *bool // nil: the classifier decides
}

func (f *Failure) Error() string { return f.Message }

// Handlers returns every handler by its entrypoint.
func Handlers() map[string]Handler {
	return map[string]Handler{"core.echo": Echo, "core.noop": Noop, "core.sleep": Sleep, "core.fail": Fail}
}

// Echo returns its parameters, or an empty object without any.
func Echo(_ context.Context, params json.RawMessage) (any, error) {
	if len(params) == 0 {
		return json.RawMessage("{}"), nil
	}
	return params, nil
}

// Noop returns null.
func Noop(context.Context, json.RawMessage) (any, error) { return nil, nil }

// Sleep waits for parameter seconds and returns the seconds slept. If the context ends first, it returns the context's
// error.
func Sleep(ctx context.Context, params json.RawMessage) (any, error) {
	var p struct {
		Seconds float64 `json:"seconds"`
	}
	if err := decode("core.sleep", params, &p); err != nil {
		return nil, err
	}
	if p.Seconds < 0 || p.Seconds > 3600 {
		return nil, invalid("core.sleep: seconds must be between 0 and 3600, got %g", p.Seconds)
	}
	timer := time.NewTimer(time.Duration(p.Seconds * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return map[string]float64{"slept": p.Seconds}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fail returns a *Failure with parameters message, code and retriable.
func Fail(_ context.Context, params json.RawMessage) (any, error) {
	var p struct {
		Message   string `json:"message"`
		Code      string `json:"code"`
		Retriable *bool  `json:"retriable"`
	}
	if err := decode("core.fail", params, &p); err != nil {
		return nil, err
	}
	if p.Message == "" {
		p.Message = "failed as asked"
	}
	if p.Code == "" {
		p.Code = "action_error"
	}
	return nil, &Failure{Code: p.Code, Message: p.Message, Retriable: p.Retriable}
}

func decode(action string, params json.RawMessage, into any) error {
	if len(params) == 0 {
		return nil
	}
	if err := json.Unmarshal(params, into); err != nil {
		return invalid("%s: parameters: %v", action, err)
	}
	return nil
}

func invalid(format string, args ...any) *Failure {
	no := false
	return &Failure{Code: "invalid_parameters", Message: fmt.Sprintf(format, args...), Retriable: &no}
}
