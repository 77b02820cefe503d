package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The journal tells what is news in the log, but for the end of a worker that a result asked for; and that a lost worker is replaced.
func TestWhatIsToldOfAWorker(t *testing.T) {
	t.Parallel()
	told := map[string]int{}
	ForEachEdge(func(e Edge) {
		word := Told(e.From, e.To, e.Reason, false)
		entry := Entry{From: e.From, To: e.To, Reason: e.Reason}
		require.Equal(t, entry.News() && e.Reason != ClosedByClient, word != "", "%v", e)
		told[word]++
		require.Equal(t, e.Reason == InitComplete, Told(e.From, e.To, e.Reason, true) == ToldRestarted, "%v", e)
	})
	for _, word := range []string{ToldDegraded, ToldRecovered, ToldEnded, ToldStartFailed} {
		require.Positive(t, told[word], word)
	}
}
