package rabbitmq

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAcksSettleExactlyWhatWasAcked applies the decisions of settledTags to a model of a server's channel, in any order
// of acks and nacks. "up to" must name an unsettled delivery, and must settle only deliveries that are to be acked.
func TestAcksSettleExactlyWhatWasAcked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newSettledTags()
		held := map[uint64]bool{}
		delivered := uint64(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			for range rapid.IntRange(0, 10).Draw(t, "deliveries") {
				delivered++
				held[delivered] = true
			}
			tags := pick(t, held, "acked")
			for _, tag := range pick(t, held, "nacked") {
				if !slices.Contains(tags, tag) {
					l.nacked(tag)
					delete(held, tag)
				}
			}
			server := serve(t, held, &l, slices.Clone(tags))
			require.ElementsMatch(t, tags, server)
		}
		require.LessOrEqual(t, len(l.settled), int(delivered))
		if len(held) == 0 {
			require.Empty(t, l.settled)
			require.Equal(t, delivered, l.floor)
		}
	})
}

func pick(t *rapid.T, held map[uint64]bool, what string) []uint64 {
	var tags []uint64
	for tag := range held {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	if len(tags) == 0 {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(tags), 0, len(tags), rapid.ID[uint64]).Draw(t, what)
}

// serve handles acks as a server does, and returns the acked tags.
func serve(t *rapid.T, held map[uint64]bool, l *settledTags, tags []uint64) (acked []uint64) {
	upTo, run, single := l.acks(tags)
	if run > 0 {
		require.True(t, held[upTo], "a server takes an unknown tag for all that it holds")
		for tag := range held {
			if tag == upTo || run > 1 && tag < upTo {
				acked = append(acked, tag)
			}
		}
	}
	for _, tag := range single {
		require.True(t, held[tag])
		acked = append(acked, tag)
	}
	for _, tag := range acked {
		delete(held, tag)
	}
	return acked
}
