package keyframe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lead"
)

func TestTheNewestKeyframeOfEachNode(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	frame := func(second int, node, pool string, last bool) keyframe.Stored {
		return keyframe.Stored{Incarnation: messages.NewIncarnation(), At: at.Add(time.Duration(second) * time.Second),
			Frame: &keyframe.Frame{Node: node, Last: last, Pools: []keyframe.Pool{{Name: pool}}}}
	}
	pools := keyframe.Newest([]keyframe.Stored{
		frame(0, "a", "old boot", false), frame(9, "b", "of b", false), frame(5, "a", "new boot", false), frame(3, "c", "of c", false), frame(4, "c", "stops", true),
	})
	require.Equal(t, []keyframe.Pool{{Name: "of b"}, {Name: "new boot"}}, pools)
	require.Empty(t, keyframe.Newest(nil))
}

func TestWhatWaitedIsThatOfTheRouter(t *testing.T) {
	t.Parallel()
	pool := func(name, mode string, epoch int64, waiting int) keyframe.Pool {
		return keyframe.Pool{Name: name, Mode: mode, Epoch: epoch, Waiting: waiting}
	}
	require.Equal(t, map[string]int{"led": 14, "moved": 3, "alone": 9, "empty": 0}, keyframe.Waiting([]keyframe.Pool{
		pool("led", lead.Alone.String(), 1, 17), pool("led", lead.Leading.String(), 1, 14), pool("led", lead.Following.String(), 1, 0),
		pool("moved", lead.Leading.String(), 2, 3), pool("moved", lead.Leading.String(), 1, 50),
		pool("alone", lead.Alone.String(), 0, 8), pool("alone", lead.Alone.String(), 0, 9),
		pool("empty", lead.Leading.String(), 1, 0),
	}))
}
