package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestADestinationProvesItself(t *testing.T) {
	t.Parallel()
	var d Destinations
	now := time.Unix(1000, 0)
	require.Equal(t, 1, d.Take("a", 10, now), "one at a time at first")
	require.Zero(t, d.Take("a", 10, now))
	d.Ended("a", true, time.Millisecond, now)
	require.Equal(t, DestinationMax, d.Take("a", 10, now))
	for range DestinationMax {
		d.Ended("a", true, slowCall, now)
	}
	require.Equal(t, 1, d.Take("a", 10, now), "it became slow")
	d.Unused("a", 1)
	require.Zero(t, d.Calls())
}

func TestADestinationThatFailsPauses(t *testing.T) {
	t.Parallel()
	var d Destinations
	now := time.Unix(1000, 0)
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		require.Equal(t, 1, d.Take("a", 1, now))
		d.Ended("a", false, time.Millisecond, now)
		require.Zero(t, d.Take("a", 1, now.Add(pause*time.Second-1)))
		now = now.Add(pause * time.Second)
	}
	require.Equal(t, 1, d.Take("a", 1, now))
	d.Ended("a", true, time.Millisecond, now)
	require.Equal(t, DestinationMax, d.Take("a", 9, now), "one that is well again")
}

// However many destinations hang, one that has answered well gets its call.
func TestDestinationsThatHangLeaveRoom(t *testing.T) {
	t.Parallel()
	var d Destinations
	now := time.Unix(1000, 0)
	d.Take("good", 1, now)
	d.Ended("good", true, 0, now)
	for _, most := range []int{unprovenMax / 2, unprovenMax / 4, unprovenMax / 8} { // each has half of what the others leave
		hanging := 0
		for i := range 1000 {
			hanging += d.Take(Of(fmt.Sprint("hangs-", i), fmt.Sprint("owner", most)), 4, now)
		}
		require.Equal(t, most, hanging)
	}
	require.Equal(t, DestinationMax, d.Take("good", 9, now))
	require.Equal(t, 1, d.Take(Of("hangs-1", "another"), 4, now), "nor do they hold up another's first call to one of them")
}

// What fails or hangs for one who submits holds up nothing of another at the same host.
func TestOneWhoSubmitsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	var d Destinations
	now := time.Unix(1000, 0)
	bad, good := Of("host:443", "bad"), Of("host:443", "good")
	require.Equal(t, 1, d.Take(bad, 30, now))
	require.Equal(t, 1, d.Take(good, 1, now), "while the bad one hangs")
	d.Ended(bad, false, 10*time.Second, now)
	d.Ended(good, true, 0, now)
	require.Zero(t, d.Take(bad, 30, now), "it pauses")
	require.Equal(t, DestinationMax, d.Take(good, 30, now))
	fresh := 0
	for i := range 100 {
		fresh += d.Take(Of("host:443", fmt.Sprint(i)), 8, now)
	}
	require.Equal(t, hostMax-DestinationMax, fresh, "the host has its bound, whoever submits")
}

func TestADestinationIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "h:1", Of("h:1", ""))
	require.Equal(t, "h:1 ann lee", Of("h:1", "ann lee"))
	require.Equal(t, "h:1 "+strings.Repeat("é", ownerMax/2), Of("h:1", strings.Repeat("é", ownerMax)))
}

// The bounds hold in every history, and what is under way is what was begun and has not ended.
func TestTheBoundsOfDestinations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d Destinations
		now := time.Unix(1000, 0)
		under := map[string]int{}
		names := rapid.SliceOfN(rapid.StringMatching(`[a-c]( [a-h])?`), 1, 30).Draw(t, "names")
		total := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "later")))
			switch step := rapid.IntRange(0, 2).Draw(t, "step"); {
			case step == 0:
				n := d.Take(name, rapid.IntRange(0, 9).Draw(t, "want"), now)
				under[name], total = under[name]+n, total+n
			case under[name] > 0 && step == 1:
				d.Ended(name, rapid.Bool().Draw(t, "well"), time.Duration(rapid.IntRange(0, 3).Draw(t, "s"))*time.Second, now)
				under[name], total = under[name]-1, total-1
			case under[name] > 0:
				d.Unused(name, 1)
				under[name], total = under[name]-1, total-1
			}
			require.Equal(t, total, d.Calls())
			require.LessOrEqual(t, total, CallsMax)
			require.LessOrEqual(t, under[name], DestinationMax)
			require.GreaterOrEqual(t, d.all.unproven, 0)
			require.LessOrEqual(t, d.all.unproven, unprovenMax)
			sum, hosts := share{}, 0
			for _, s := range d.owners {
				sum = share{sum.calls + s.calls, sum.unproven + s.unproven}
			}
			for _, n := range d.hosts {
				require.LessOrEqual(t, n, hostMax)
				hosts += n
			}
			require.Equal(t, d.all, sum)
			require.Equal(t, total, hosts)
		}
	})
}

func TestFewDestinationsAreRemembered(t *testing.T) {
	t.Parallel()
	var d Destinations
	now := time.Unix(1000, 0)
	for i := range 3 * knownMax {
		name := fmt.Sprint(i)
		require.Equal(t, 1, d.Take(name, 1, now))
		d.Ended(name, i%2 == 0, 0, now)
	}
	require.LessOrEqual(t, len(d.known), knownMax)
}
