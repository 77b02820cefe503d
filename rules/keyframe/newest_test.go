package keyframe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/keyframe"
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
