package rabbitmq

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	type step struct {
		arrives int  // a body of this size arrives
		settles int  // a body of this size is settled
		back    bool // it is given back
		n       int  // the prefetch of the next subscription
		change  bool
	}
	small := step{arrives: 100}
	for name, c := range map[string]struct {
		prefetch, first int
		steps           []step
	}{
		"a short prefetch is asked for whole": {8, 8, []step{small, small}},
		"the window grows when it is full of small ones": {21, 4, []step{small, small, small,
			{arrives: 100, n: 17, change: true}}},
		"or when as many have come": {100, 4, []step{small, {settles: 100}, small, {settles: 100}, small, {settles: 100},
			{arrives: 100, n: 99, change: true}}},
		"a large one makes it as many as have room": {100, 4, []step{small, {arrives: 6 * mib, n: 2, change: true}}},
		"mean ones let it grow to what has room": {100, 4, []step{{arrives: mib}, {arrives: mib}, {arrives: mib},
			{arrives: mib, n: 16, change: true}}},
		"a huge one is taken alone": {100, 4, []step{{arrives: 25 * mib, n: 1, change: true}}},
		"and those behind it go back until it is settled": {100, 4, []step{{arrives: 25 * mib, n: 1, change: true},
			{arrives: 25 * mib, back: true, change: true}, {settles: 25 * mib, n: 1, change: true},
			{arrives: 25 * mib}, {settles: 25 * mib}, {arrives: 100, n: 99, change: true}}},
		"small ones never go back": {100, 4, []step{{arrives: 25 * mib, n: 1, change: true}, {arrives: 100, n: 98, change: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow(c.prefetch)
			require.Equal(t, c.first, w.at)
			for i, s := range c.steps {
				if s.settles > 0 {
					w.settled(s.settles, w.serial)
				} else {
					require.Equal(t, !s.back, w.arrive(s.arrives), "step %d", i)
				}
				n, change := w.next()
				require.Equal(t, s.change, change, "step %d", i)
				if change {
					require.Equal(t, s.n, n, "step %d", i)
					w.subscribed(n)
				}
			}
		})
	}
}

// sized is a message of the property below; only its size matters.
type sized struct {
	size   int
	serial uint64
}

// A server sends as much as the prefetch allows, including deliveries on their way when the subscription ends. For all
// sizes, the number of unsettled messages is within the prefetch, and their bytes are within the bound except for one
// body. In any order of settlements, every message arrives once.
func TestWindowBoundsWhatIsHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefetch := rapid.IntRange(1, 200).Draw(t, "prefetch")
		queue := rapid.SliceOfN(rapid.SampledFrom([]int{10, 1000, smallBody, smallBody + 1, 1 << 20, 5 << 20, 30 << 20}), 1, 300).Draw(t, "sizes")
		w, held, done := newWindow(prefetch), []sized{}, 0
		total := len(queue)
		check := func() {
			bytes, largest := 0, 0
			for _, p := range held {
				bytes += weight(p.size)
				largest = max(largest, weight(p.size))
			}
			require.Equal(t, len(held), w.held)
			require.Equal(t, bytes, w.bytes)
			require.LessOrEqual(t, w.held, prefetch)
			require.LessOrEqual(t, min(bytes, max(bytes-largest, 0)), heldBytes)
		}
		arrive := func() {
			size := queue[0]
			queue = queue[1:]
			if w.arrive(size) {
				held = append(held, sized{size, w.serial})
			} else {
				queue = append([]int{size}, queue...)
			}
			check()
		}
		adjust := func() {
			if n, change := w.next(); change {
				for range rapid.IntRange(0, max(0, w.at-w.current)).Draw(t, "late") { // sent before the server got the cancel
					if len(queue) > 0 {
						arrive()
					}
				}
				if n = min(n, prefetch-w.held); w.over {
					n = 0
				}
				w.subscribed(max(n, 0))
			}
		}
		for rounds := 0; done < total; rounds++ {
			require.Less(t, rounds, 100*total+1000, "it must come to an end")
			for len(queue) > 0 && w.current < w.at && rapid.Bool().Draw(t, "send") {
				arrive()
				adjust()
			}
			if len(held) > 0 && rapid.Bool().Draw(t, "settle") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				w.settled(held[i].size, held[i].serial)
				held = append(held[:i], held[i+1:]...)
				done++
				check()
				adjust()
			}
		}
	})
}

// After any sizes before, small unsettled messages fill the whole prefetch, so none waits behind those of a busy
// worker.
func TestWindowFillsWithSmallOnes(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{1, 4, 8, 9, 21, 42, 1000, prefetchMax} {
		w := newWindow(prefetch)
		serial := w.serial
		require.True(t, w.arrive(40<<20))
		n, change := w.next()
		if change {
			w.subscribed(n)
		}
		w.settled(40<<20, serial)
		for w.held < prefetch-w.slack() || w.held == 0 {
			if n, change := w.next(); change {
				w.subscribed(n)
			}
			require.Less(t, w.current, w.at, "%d of %d are held and no more can come", w.held, prefetch)
			require.True(t, w.arrive(100))
		}
	}
}
