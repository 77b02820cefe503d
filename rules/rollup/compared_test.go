package rollup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/rollup"
)

func TestComparedRangesAreOfWholeSteps(t *testing.T) {
	t.Parallel()
	in := func(minute int) time.Time {
		return time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute)
	}
	for name, c := range map[string]struct {
		from, to, known, kept time.Time
		want                  [4]time.Time // before, from, to, until
	}{
		"whole minutes":      {in(0), in(60), in(60), time.Time{}, [4]time.Time{in(-60), in(0), in(60), in(60)}},
		"within minutes":     {in(0).Add(20 * time.Second), in(60).Add(20 * time.Second), in(90), in(-61), [4]time.Time{in(-61), in(0), in(61), in(61)}},
		"it ends now":        {in(0), in(60), in(50).Add(7 * time.Second), time.Time{}, [4]time.Time{in(-51), in(0), in(51), in(50).Add(7 * time.Second)}},
		"all of it to come":  {in(20), in(30), in(5), time.Time{}, [4]time.Time{in(19), in(20), in(21), in(5)}},
		"minutes deleted":    {in(10), in(70), in(200), in(0), [4]time.Time{in(-120), in(0), in(120), in(120)}},
		"less than a minute": {in(0).Add(time.Second), in(0).Add(2 * time.Second), in(9), time.Time{}, [4]time.Time{in(-1), in(0), in(1), in(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rollup.Compare(c.from, c.to, c.known, c.kept)
			require.Equal(t, c.want, [4]time.Time{r.Before, r.From, r.To, r.Until})
			for _, at := range []struct {
				t      time.Time
				in     int
				within bool
			}{{r.Before.Add(-1), 0, false}, {r.Before, 1, true}, {r.From.Add(-1), 1, true}, {r.From, 0, true}, {r.To.Add(-1), 0, true}, {r.To, 0, false}} {
				in, within := r.In(at.t)
				require.Equal(t, []any{at.in, at.within}, []any{in, within}, at.t)
			}
		})
	}
}
