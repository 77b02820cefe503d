package membership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every sight has one reach; what must never be taken for another stands here.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sight Sight
		want  Reach
	}{
		{Sight{NoPeer, BeatsUnknown, false}, Unseen},
		{Sight{NoPeer, BeatsOn, false}, ByStore},
		{Sight{NoPeer, BeatsDue, false}, ByStore},
		{Sight{NoPeer, BeatsOver, false}, Lost},
		{Sight{Unheard, BeatsUnknown, false}, NotHeard},
		{Sight{Unheard, BeatsOn, false}, NotHeard},
		{Sight{Unheard, BeatsDue, false}, NotHeard},
		{Sight{Unheard, BeatsOver, false}, Lost},
		{Sight{Answers, BeatsUnknown, false}, StoreAway},
		{Sight{Answers, BeatsUnknown, true}, StoreHere},
		{Sight{Answers, BeatsOn, true}, Reached},
		{Sight{Answers, BeatsOn, false}, Reached},
		{Sight{Answers, BeatsDue, true}, Reached},
		{Sight{Answers, BeatsOver, false}, StoreLost},
		{Sight{Answers, BeatsOver, true}, StoreLost},
		{Sight{Silent, BeatsUnknown, true}, Unseen},
		{Sight{Silent, BeatsOn, true}, Apart},
		{Sight{Silent, BeatsDue, true}, Suspect},
		{Sight{Silent, BeatsOver, true}, Lost},
		{Sight{peerSights, BeatsOn, true}, Unseen},
		{Sight{Answers, beatSights, true}, Unseen},
	} {
		require.Equal(t, c.want, c.sight.Reach(), "%+v", c.sight)
	}
}

func TestReachesHaveNames(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for r := range reaches {
		require.NotEmpty(t, r.Sentence())
		names[r.String()] = true
	}
	require.Len(t, names, int(reaches))
	require.Equal(t, "reach(10)", reaches.String())
	require.Equal(t, "reach(10)", reaches.Sentence())
}
