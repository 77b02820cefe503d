package membership

import "fmt"

// PeerSight is what the remoting shows of another incarnation.
type PeerSight uint8

// What the remoting shows.
const (
	NoPeer  PeerSight = iota // it cannot be asked: it tells no address, or this node listens for no peers
	Unheard                  // it has not answered yet, and nothing was lost
	Answers                  // it answered when it was asked last
	Silent                   // it does not answer any more
	peerSights
)

// BeatSight is what the store shows of another incarnation.
type BeatSight uint8

// What the store shows.
const (
	BeatsUnknown BeatSight = iota // the store is not seen from here
	BeatsOn                       // it beats, and has since it became silent
	BeatsDue                      // it has not beaten since it became silent, and its lease has not run out
	BeatsOver                     // its lease has run out
	beatSights
)

// Sight is all that one incarnation knows of how it stands with another.
type Sight struct {
	Peer   PeerSight
	Beats  BeatSight
	Renews bool // what it said when it was asked last, where it Answers
}

// Reach is how one incarnation stands with another. It tells a partition from a crash, and decides nothing.
type Reach uint8

// How an incarnation stands with another.
const (
	ByStore   Reach = iota // only its beats are seen
	NotHeard               // it is new here
	Reached                // it answers, and it beats
	StoreLost              // it answers, and has lost the store
	StoreHere              // it answers and has the store, which this node has lost
	StoreAway              // it answers, and neither has the store
	Suspect                // it does not answer; whether it goes on will show within its lease
	Apart                  // it does not answer here, and beats: a partition
	Lost                   // it neither answers nor beats
	Unseen                 // neither it nor the store is seen from here
	reaches
)

var reachNames = [reaches]string{
	"store_only", "not_heard", "reached", "store_lost_there", "store_lost_here", "store_away", "suspect", "partitioned", "lost", "unseen",
}

// reachTexts say what is known, in words that follow the node's name.
var reachTexts = [reaches]string{
	"is known by its beats in the store alone",
	"has not answered yet",
	"answers and renews its lease",
	"answers, and does not renew its lease: it has lost the store",
	"answers and renews its lease, while this node does not see the store",
	"answers, and neither it nor this node sees the store",
	"does not answer; its lease will show whether it goes on",
	"does not answer here and renews its lease: it is partitioned from here",
	"neither answers nor renews its lease: it has crashed, is frozen, or is cut off from everything",
	"does not answer, and the store is not seen from here: nothing is known of it",
}

func (r Reach) String() string {
	if r < reaches {
		return reachNames[r]
	}
	return fmt.Sprintf("reach(%d)", uint8(r))
}

// Sentence says what is known, in words that follow the node's name.
func (r Reach) Sentence() string {
	if r < reaches {
		return reachTexts[r]
	}
	return r.String()
}

// reachTable is the whole decision but for what a peer says of the store.
var reachTable = [peerSights][beatSights]Reach{
	NoPeer:  {BeatsUnknown: Unseen, BeatsOn: ByStore, BeatsDue: ByStore, BeatsOver: Lost},
	Unheard: {BeatsUnknown: NotHeard, BeatsOn: NotHeard, BeatsDue: NotHeard, BeatsOver: Lost},
	Answers: {BeatsUnknown: StoreAway, BeatsOn: Reached, BeatsDue: Reached, BeatsOver: StoreLost},
	Silent:  {BeatsUnknown: Unseen, BeatsOn: Apart, BeatsDue: Suspect, BeatsOver: Lost},
}

// Reach judges a sight.
func (s Sight) Reach() Reach {
	if s.Peer >= peerSights || s.Beats >= beatSights {
		return Unseen
	}
	r := reachTable[s.Peer][s.Beats]
	if r == StoreAway && s.Renews {
		return StoreHere
	}
	return r
}

// Standing is how an incarnation stands with another, and why.
type Standing struct {
	Reach Reach
	Why   string
}
