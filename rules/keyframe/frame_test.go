package keyframe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

func drawSlot(t *rapid.T) keyframe.Slot {
	if rapid.IntRange(0, 9).Draw(t, "used") == 0 {
		return keyframe.Slot{}
	}
	return keyframe.Slot{
		Used: true, Generation: messages.Generation(rapid.IntRange(1, 3).Draw(t, "generation")),
		State:    rapid.SampledFrom(lifecycle.States()).Draw(t, "state"),
		Grade:    rapid.SampledFrom(append(health.Grades(), health.Unknown)).Draw(t, "grade"),
		Cordoned: rapid.Bool().Draw(t, "cordoned"), Age: time.Duration(rapid.IntRange(0, 100_000).Draw(t, "age")) * time.Second,
	}
}

func drawPool(t *rapid.T) keyframe.Pool {
	p := keyframe.Pool{
		Name: rapid.String().Draw(t, "name"), Runtime: messages.Runtime(rapid.SampledFrom([]string{"go", "python"}).Draw(t, "runtime")),
		Broken: rapid.Bool().Draw(t, "broken"), Cordoned: rapid.Bool().Draw(t, "cordoned"), Mode: rapid.SampledFrom([]string{"", "leading"}).Draw(t, "mode"),
		Epoch: rapid.Int64().Draw(t, "epoch"), Bound: rapid.IntRange(0, 9).Draw(t, "bound"), Mailbox: rapid.IntRange(0, 9).Draw(t, "mailbox"),
		Slots: rapid.SliceOf(rapid.Custom(drawSlot)).Draw(t, "slots"),
	}
	if p.Mode != "" {
		p.Router = messages.NewIncarnation()
	}
	if len(p.Slots) == 0 {
		p.Slots = nil
	}
	return p
}

func TestAKeyframeIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := keyframe.Frame{
			Node: rapid.String().Draw(t, "node"), Version: "1.2", Draining: rapid.Bool().Draw(t, "draining"), Last: rapid.Bool().Draw(t, "last"),
			Pools: rapid.SliceOf(rapid.Custom(drawPool)).Draw(t, "pools"),
		}
		if len(f.Pools) == 0 {
			f.Pools = nil
		}
		b, err := keyframe.Encode(&f)
		require.NoError(t, err)
		read, err := keyframe.Decode(b)
		require.NoError(t, err)
		require.Equal(t, &f, read)
	})
}

func TestWhatIsNoKeyframeIsRefused(t *testing.T) {
	t.Parallel()
	whole, err := keyframe.Encode(&keyframe.Frame{Node: "a", Pools: []keyframe.Pool{{Name: "p", Slots: make([]keyframe.Slot, 100)}}})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		_, err := keyframe.Decode(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		require.Error(t, err)
		_, err = keyframe.Decode(whole[:rapid.IntRange(0, len(whole)-1).Draw(t, "cut")])
		require.Error(t, err)
	})
}

func TestRunsAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOf(rapid.SampledFrom([]byte("rbd-?01"))).Draw(t, "letters")
		text := keyframe.Runs(letters)
		read, err := keyframe.Unrun(text, len(letters))
		require.NoError(t, err)
		require.Equal(t, string(letters), read)
		if len(letters) > 0 {
			_, err = keyframe.Unrun(text, len(letters)-1)
			require.Error(t, err, "more than were expected")
		}
		_, _ = keyframe.Unrun(rapid.String().Draw(t, "other text"), 100) // it does not panic
	})
	require.Equal(t, "r(3)bd(2)", keyframe.Runs([]byte("rrrbdd")))
	for _, wrong := range []string{"r(", "r(x)", "r(0)", "r(-1)", "r(101)", "r(99999999999999999999)"} {
		_, err := keyframe.Unrun(wrong, 100)
		require.Error(t, err, wrong)
	}
}

func TestAThousandWorkersAreSmall(t *testing.T) {
	t.Parallel()
	slots := make([]keyframe.Slot, 1000)
	for i := range slots {
		slots[i] = keyframe.Slot{Used: true, Generation: messages.Generation(1 + i%7/6), State: lifecycle.Busy, Grade: health.Healthy, Age: time.Duration(i*7919%997) * time.Second}
		if i%3 == 0 {
			slots[i].State = lifecycle.Ready
		}
	}
	b, err := keyframe.Encode(&keyframe.Frame{Node: "a", Pools: []keyframe.Pool{{Name: "p", Slots: slots}}})
	require.NoError(t, err)
	require.Less(t, len(b), 6000)
	t.Logf("%d bytes", len(b))
}
