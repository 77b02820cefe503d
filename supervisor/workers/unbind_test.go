package workers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// bindings are the sessions that are bound; from the failth call on it fails.
type bindings struct {
	bound       map[string]bool
	calls, fail int
}

var errAway = errors.New("away")

func (b *bindings) Unbind(_ context.Context, list []store.Binding) (n int, err error) {
	if b.calls++; b.calls == b.fail {
		return 0, errAway
	}
	for _, one := range list {
		if b.bound[one.Session] {
			n++
		}
		delete(b.bound, one.Session)
	}
	return n, nil
}

// A binding that the router has ended is not recorded a second time.
func TestOnlyEndedBindingsAreRecorded(t *testing.T) {
	t.Parallel()
	list := func(n int) (all []store.Binding) {
		for i := range n {
			all = append(all, store.Binding{Session: fmt.Sprint("s", i)})
		}
		return all
	}
	ended, err := endBound(t.Context(), &bindings{bound: map[string]bool{"s1": true}}, list(3))
	require.NoError(t, err)
	require.Equal(t, list(3)[1:2], ended)
	ended, err = endBound(t.Context(), &bindings{bound: map[string]bool{"s0": true, "s1": true}, fail: 2}, list(3))
	require.ErrorIs(t, err, errAway)
	require.Equal(t, list(1), ended, "what was ended before")

	many := &bindings{bound: map[string]bool{}}
	ended, err = endBound(t.Context(), many, list(fewBound+1))
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Equal(t, 1, many.calls)
	ended, err = endBound(t.Context(), many, nil)
	require.NoError(t, err)
	require.Empty(t, ended)
}
