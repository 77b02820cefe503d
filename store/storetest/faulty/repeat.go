package faulty

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A repeating caller makes a call at most callsMax times, with a pause after each.
const (
	callsMax = 100
	between  = 100 * time.Microsecond
)

// Repeat wraps a store into a caller that repeats calls with store.ErrUnavailable. If a faulty store has lost a reply,
// it compares the repeated one with it: an applied change must not be applied again (ErrTwice), and its caller gets
// Applied. With any other store it only repeats.
func Repeat(s store.Store) store.Store {
	return &repeating{calls{Store: s, around: func(ctx context.Context, _ bool, do func() error) error {
		return again(ctx, func(error) error { return do() })
	}}}
}

type repeating struct{ calls }

// again calls do until the outcome is known. Each call gets the error of the one before.
func again(ctx context.Context, do func(before error) error) error {
	var err error
	for range callsMax {
		if err = do(err); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrTwice) {
			return err
		}
		if paused := pause(ctx, between); paused != nil {
			return paused
		}
	}
	return err
}

// Submit implements store.Store.
func (r *repeating) Submit(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return r.SubmitPlaced(ctx, executions, nil)
}

// SubmitPlaced implements store.Store.
func (r *repeating) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) (out []store.Submitted, err error) {
	var first *lostReply
	err = again(ctx, func(before error) error {
		first = earliest(first, before)
		var err error
		out, err = r.Store.SubmitPlaced(ctx, executions, places)
		if first != nil && !errors.Is(err, store.ErrUnavailable) {
			out, err = mergeSubmitted(first.submitted, first.err, out, err)
		}
		return err
	})
	return out, err
}

// Apply implements store.Store.
func (r *repeating) Apply(ctx context.Context, changes []store.Change) (out []store.Result, err error) {
	var lost []*lostReply
	err = again(ctx, func(before error) error {
		var l *lostReply
		if errors.As(before, &l) {
			lost = append(lost, l)
		}
		var err error
		out, err = r.Store.Apply(ctx, changes)
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
		for i := len(lost) - 1; i >= 0; i-- { // the latest first, so that each is compared with all that came after it
			out, err = mergeResults(changes, lost[i].results, lost[i].err, out, err)
		}
		return err
	})
	return out, err
}

// earliest returns the first lost reply: the later ones found its changes made.
func earliest(first *lostReply, err error) *lostReply {
	if first == nil {
		errors.As(err, &first)
	}
	return first
}

// mergeSubmitted returns the reply to a caller that submitted twice: a submission that was new the first time exists
// the second time.
func mergeSubmitted(first []store.Submitted, err error, second []store.Submitted, errSecond error) ([]store.Submitted, error) {
	if err != nil || errSecond != nil {
		return second, errSecond
	}
	for i := range first {
		if !second[i].Existing || second[i].Execution.ID != first[i].Execution.ID {
			return nil, fmt.Errorf("submit execution %s: %w", first[i].Execution.ID, ErrTwice)
		}
	}
	return first, nil
}

// mergeResults returns the reply to a caller that made the same changes twice: Applied if the first time was, otherwise
// the second result, because others may have made changes between.
func mergeResults(changes []store.Change, first []store.Result, err error, second []store.Result, errSecond error) ([]store.Result, error) {
	if err != nil || errSecond != nil {
		return second, errSecond
	}
	out := make([]store.Result, len(first))
	for i := range first {
		out[i] = second[i]
		if first[i].Verdict != store.Applied {
			continue
		}
		if v := second[i].Verdict; v != store.Already && v != store.Stale {
			return nil, fmt.Errorf("%s of execution %s: first applied, then %s: %w", changes[i].Name(), changes[i].Target(), v, ErrTwice)
		}
		out[i] = first[i]
	}
	return out, nil
}
