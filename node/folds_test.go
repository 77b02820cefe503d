package node

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// Hours are folded once they are old enough, as many as there is time for, and those whose minutes are about to be deleted stay as they are.
func TestOldHoursAreFolded(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	this := now.Truncate(time.Hour)
	inc, day := messages.NewIncarnation(), 24*time.Hour
	ages := []time.Duration{0, time.Hour, 7 * day, 8 * day}
	for i := range foldsMax + 2 {
		ages = append(ages, time.Duration(4+i)*time.Hour)
	}
	for _, age := range ages {
		require.NoError(t, s.SaveRollups(t.Context(), []store.Rollup{{Minute: this.Add(-age), Incarnation: inc, Pool: "p", Action: "a", N: 1},
			{Minute: this.Add(-age).Add(time.Minute), Incarnation: inc, Pool: "p", Action: "a", N: 2}}))
	}
	f := &folds{&base{cfg: Config{Retention: retentionDefaults()}, logger: hclog.NewNullLogger(), store: &doubt{Store: s}}}
	folded := func() (all []time.Duration) {
		page, err := s.ReadRollupHours(t.Context(), store.RollupQuery{})
		require.NoError(t, err)
		for _, r := range page.Rows {
			require.Equal(t, int64(3), r.N)
			all = append(all, this.Sub(r.Minute))
		}
		return all
	}
	past, future := now.Add(-time.Hour), now.Add(time.Hour)
	require.NoError(t, f.fold(t.Context(), past))
	require.Len(t, folded(), 1)
	require.NoError(t, f.fold(t.Context(), future))
	require.Len(t, folded(), 1+foldsMax)
	require.NoError(t, f.round(t.Context()))
	require.ElementsMatch(t, ages[4:], folded())
	f.cfg.RetainJournal = ForEver
	require.NoError(t, f.fold(t.Context(), future))
	require.ElementsMatch(t, ages[2:], folded())
}

func TestMinutesAreKeptUntilTheirHoursAreMade(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]time.Duration{{ForEver, ForEver}, {time.Minute, 6 * time.Hour}, {24 * time.Hour, 24 * time.Hour}} {
		require.Equal(t, c[1], (&Retention{RetainJournal: c[0]}).minutesKept())
	}
}
