package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/store"
)

func TestReadyzSpeaksOfNoticesThatAreLate(t *testing.T) {
	t.Parallel()
	const said = "notices: 3 outcomes are not told on the executions exchange yet, the oldest for 35s"
	for name, c := range map[string]struct {
		report actors.NoticesReport
		want   []string
	}{
		"none":        {},
		"young":       {actors.NoticesReport{NoticesPending: store.NoticesPending{Count: 3, Age: 9 * time.Second}, Why: "x"}, nil},
		"with a why":  {actors.NoticesReport{NoticesPending: store.NoticesPending{Count: 3, Age: 35 * time.Second}, Why: "blocked"}, []string{said + ": blocked"}},
		"it is at it": {actors.NoticesReport{NoticesPending: store.NoticesPending{Count: 3, Age: 35 * time.Second}, Teller: true}, []string{said + ": this node tells them"}},
		"another": {
			actors.NoticesReport{NoticesPending: store.NoticesPending{Count: 3, Age: 35 * time.Second}},
			[]string{said + ": another node tells them, or none does that serves the exchange"},
		},
		"many": {
			actors.NoticesReport{NoticesPending: store.NoticesPending{Count: 3, More: true, Age: 35 * time.Second}, Why: "x"},
			[]string{"notices: more than 3 outcomes are not told on the executions exchange yet, the oldest for 35s: x"},
		},
	} {
		var s notices
		require.Empty(t, s.notes(), "before the first report")
		s.take(c.report)
		require.Equal(t, c.want, s.notes(), name)
	}
}
