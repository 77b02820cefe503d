package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fencedBy is when a machine that is never renewed again fences itself, if it is stepped when wake says so.
func fencedBy(t *testing.T, heard *Heard, later *Heard, wake func(*Machine, time.Duration) time.Duration) time.Duration {
	t.Helper()
	m := steady(t)
	pending := []Event{Tick{}}
	for now := time.Duration(0); now < 20*time.Minute; now = wake(m, now) {
		for pending = append(pending, Tick{}); len(pending) > 0; {
			e := pending[0]
			pending = pending[1:]
			for _, effect := range m.Step(now, e) {
				switch effect.(type) {
				case Fence:
					return now
				case Beat:
					pending = append(pending, Unanswered{})
				case AskPeers:
					if heard != nil {
						pending = append(pending, *heard)
						if later != nil {
							heard = later
						}
					}
				}
			}
		}
	}
	require.Fail(t, "it never fences itself")
	return 0
}

// Who steps the machine only when Next says so fences the node as early as who steps it all the time.
func TestNextMissesNoFence(t *testing.T) {
	t.Parallel()
	const often = 10 * time.Millisecond
	for name, c := range map[string]struct {
		heard, later *Heard
		late         time.Duration // peers are asked with a beat, so what they say may be known one later
	}{
		"its peers do not answer":         {},
		"the store is away for everyone":  {heard: &Heard{Peers: 2, Lost: 2}},
		"no peer can be reached any more": {heard: &Heard{Peers: 2, Lost: 2}, later: &Heard{Peers: 2}, late: time.Second},
		"there is nobody to ask":          {heard: &Heard{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			always := fencedBy(t, c.heard, c.later, func(_ *Machine, now time.Duration) time.Duration { return now + often })
			asked := fencedBy(t, c.heard, c.later, func(m *Machine, now time.Duration) time.Duration { return max(m.Next(), now+time.Millisecond) })
			require.LessOrEqual(t, asked, always+often+c.late)
		})
	}
}
