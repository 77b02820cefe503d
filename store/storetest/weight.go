package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// scale is an admission that notes what is weighed, and refuses what is heavier than its most.
type scale struct {
	most    int64
	weighed []int64
}

var errHeavy = errors.New("too heavy, a test said so")

func (s *scale) Admit(_ context.Context, bytes int64) error {
	s.weighed = append(s.weighed, bytes)
	if bytes > s.most {
		return errHeavy
	}
	return nil
}

// longText is a JSON text of so many bytes.
func longText(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

// testWeight checks that what is long is weighed before it is read for a caller, and refused by its weight, and that what is short is not.
func testWeight(t *testing.T, k *kit) {
	const size = 1 << 20
	long := k.submit(t, many(1, func(e *messages.Execution) { e.Parameters = longText(size) })...)[0]
	short := k.submit(t, many(1)...)[0]
	k.start(t, long)
	k.applied(t, &store.Finish{ID: long.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: longText(size)},
		Output: messages.Output{Stdout: make([]byte, size/2), Stderr: []byte("e")}})
	want, err := k.Get(t.Context(), long.ID)
	require.NoError(t, err)
	output, err := k.Output(t.Context(), long.ID)
	require.NoError(t, err)

	s := &scale{most: 4 * size}
	ctx := store.WithAdmission(t.Context(), s)
	got, err := k.Get(ctx, long.ID)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []int64{2 * size}, s.weighed)
	written, err := k.Output(ctx, long.ID)
	require.NoError(t, err)
	require.Equal(t, output, written)
	require.Equal(t, []int64{2 * size, size/2 + 1}, s.weighed)
	_, err = k.Get(ctx, short.ID)
	require.NoError(t, err)
	_, err = k.Output(ctx, short.ID)
	require.NoError(t, err)
	_, err = k.Chain(ctx, long.ID)
	require.NoError(t, err)
	require.Len(t, s.weighed, 2, "what is short is not weighed")

	s.most = size / 4
	_, err = k.Get(ctx, long.ID)
	require.ErrorIs(t, err, errHeavy)
	_, err = k.Output(ctx, long.ID)
	require.ErrorIs(t, err, errHeavy)
	bare, err := k.Get(store.Bare(ctx), long.ID)
	require.NoError(t, err)
	require.Empty(t, bare.Parameters)
	require.Empty(t, bare.Result)
	want.Parameters, want.Result = nil, nil
	require.Equal(t, want, bare)
	for _, ctx := range []context.Context{ctx, store.Bare(ctx)} {
		_, err = k.Get(ctx, messages.NewExecutionID())
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = k.Output(ctx, messages.NewExecutionID())
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

// testListBytes checks that pages of executions with long errors end short, and have all of them together.
func testListBytes(t *testing.T, k *kit) {
	const rows = 200
	all := k.submit(t, many(rows)...)
	for i := range all {
		outcome := failed(messages.Failed)
		outcome.Error.Message = fmt.Sprint(i, strings.Repeat("m", store.ErrorListed))
		k.applied(t, &store.End{ID: all[i].ID, Outcome: outcome})
	}
	for name, f := range map[string]store.Filter{
		"by index": {Limit: 1000}, "by walk": {Limit: 1000, Texts: []string{"mmm"}}, "oldest": {Limit: 1000, Oldest: true},
	} {
		seen, pages := map[messages.ExecutionID]bool{}, 0
		for {
			page, err := k.List(t.Context(), f)
			require.NoError(t, err, name)
			bytes := 0
			for i := range page.Executions {
				e := &page.Executions[i]
				require.False(t, seen[e.ID], name)
				seen[e.ID], bytes = true, bytes+len(e.Error.Message)
			}
			require.LessOrEqual(t, bytes, store.ListBytes, name)
			pages++
			if page.Next == 0 {
				break
			}
			if f.Before = page.Next; f.Oldest {
				f.Before, f.After = 0, page.Next
			}
		}
		require.Len(t, seen, rows, name)
		require.Greater(t, pages, 1, name)
	}
}
