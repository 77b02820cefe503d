package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// TestDepthsAreCountedByWhatTheyCost: what is counted fast is counted at every call, and slow counts take a bounded share
// of the time, however often and from wherever it is asked.
func TestDepthsAreCountedByWhatTheyCost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		every time.Duration // how long one answer serves
	}{
		"fast": {time.Millisecond, 0}, "slow": {100 * time.Millisecond, 2 * time.Second}, "very slow": {3 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				counts := 0
				d := newDepths(func(context.Context) ([]store.Depth, error) {
					time.Sleep(c.takes)
					counts++
					return []store.Depth{{Count: counts}}, nil
				})
				read := func() int {
					got, err := d.read(t.Context())
					require.NoError(t, err)
					n := got[0].Count
					got[0].Count = -1 // an answer is the caller's own
					return n
				}
				require.Equal(t, 1, read())
				if c.every == 0 {
					require.Equal(t, 2, read())
					return
				}
				time.Sleep(c.every - time.Nanosecond)
				require.Equal(t, 1, read())
				time.Sleep(time.Nanosecond)
				require.Equal(t, 2, read())
			})
		})
	}
}

// TestDepthsShowWhatThisNodeSubmitted: an answer that was begun before a submission ended does not serve who asks after
// it, unless counting is so dear that one submission is not seen among all that wait.
func TestDepthsShowWhatThisNodeSubmitted(t *testing.T) {
	t.Parallel()
	for takes, fresh := range map[time.Duration]bool{100 * time.Millisecond: true, depthsDear: false} {
		synctest.Test(t, func(t *testing.T) {
			stored, during := 0, 0
			var d *depths
			submit := func() {
				stored++
				d.submitted()
			}
			d = newDepths(func(context.Context) ([]store.Depth, error) {
				counted := stored
				for ; during > 0; during-- {
					submit() // too late for this count
				}
				time.Sleep(takes)
				return []store.Depth{{Count: counted}}, nil
			})
			read := func() int {
				got, err := d.read(t.Context())
				require.NoError(t, err)
				return got[0].Count
			}
			require.Equal(t, 0, read())
			submit()
			if !fresh {
				require.Equal(t, 0, read())
				return
			}
			during = 1
			require.Equal(t, 1, read())
			require.Equal(t, 2, read())
			stored++ // by another node
			require.Equal(t, 2, read(), "the answer serves again")
		})
	}
}

func TestDepthsCallersShareOneCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counts, away := 0, true
		d := newDepths(func(ctx context.Context) ([]store.Depth, error) {
			if away {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(time.Second)
			counts++
			return nil, nil
		})
		_, err := d.read(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded, "a store that does not answer is given up")
		away = false
		done := make(chan error, 5)
		for range cap(done) {
			go func() {
				_, err := d.read(t.Context())
				done <- err
			}()
		}
		impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		time.Sleep(time.Nanosecond)
		_, err = d.read(impatient)
		require.True(t, errors.Is(err, context.DeadlineExceeded), "a caller waits no longer than it wants")
		for range cap(done) {
			require.NoError(t, <-done)
		}
		require.Equal(t, 1, counts)
	})
}
