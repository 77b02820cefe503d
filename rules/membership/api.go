package membership

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Config is the times of a member. Zero fields mean the default.
type Config struct {
	Lease time.Duration // 4 s
	Beat  time.Duration // between two renewals; 1 s
	Grace time.Duration // how long running work goes on while the store is away for everyone; 10 min
}

// Defaults are the times where none is set.
func Defaults() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	for field, value := range map[*time.Duration]time.Duration{
		&c.Lease: 4 * time.Second, &c.Beat: time.Second, &c.Grace: 10 * time.Minute,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return c
}

// GapShare is the share of the lease, in thousandths, that may pass between two renewals of a steady node: two and a half of the
// four beats of a lease by default. After a longer gap the node has to renew for a whole lease again before it declares others
// dead. For the gap may have been everybody's, an outage of the store or a step of its clock; a node that lives had renewed up
// to a beat before that, so within a gap that is no longer than this share its lease has not run out.
const GapShare = 625

// askShare is the share of the lease, in thousandths, after which a node that has not renewed asks its peers; they have the
// rest of the lease to answer.
const askShare = 800

// aloneShare is the share of the lease, in thousandths, for which an outage may go on although no peer can be reached any more.
// One that has the store back declares nobody dead before it has renewed for a whole lease.
const aloneShare = 500

// Joined is what the renewal with which an incarnation joined showed.
type Joined struct {
	Leases bool // the store evaluates leases
	Others []Other
}

// Event is something that happened. Times are by the process's own monotonic clock, from any start.
type Event interface{ isEvent() }

// Other is another incarnation, as a renewal's answer shows it.
type Other struct {
	Incarnation messages.Incarnation
	Lapsed      bool      // its lease has run out
	Renewed     time.Time // its last renewal, by the store's clock
	Trace       Trace
}

// Renewed answers a Beat.
type Renewed struct {
	Asked  time.Duration // when the renewal was sent
	Steady bool          // by the store, the own lease has been renewed without a gap for its length: others may be declared dead
	Others []Other       // that nobody has declared dead
	// SteadyFor is for how long the own lease has been renewed without a gap.
	SteadyFor time.Duration
}

// Unanswered answers a Beat: the store did not, or not in time.
type Unanswered struct{}

// FoundDead answers a Beat: the incarnation has been declared dead.
type FoundDead struct{}

// Refused says that the store refused a claim because the own lease is not live there.
type Refused struct{}

// PeerLost says that the connection to a peer has ended. What the store shows of its process is looked at soon.
type PeerLost struct{}

// Knocked answers a Knock: which addresses were asked, and which of them refused the connection.
type Knocked struct{ Asked, Refused []messages.Incarnation }

// Declared answers a Declare and a DeclareGone: who was dead; none where it failed.
type Declared struct{ Dead []messages.Incarnation }

// Heard answers an AskPeers.
type Heard struct {
	Peers int // that count (Weight) and can be asked
	Seen  int // of them, that renew their lease and have for a while; above 0, the others need not have been waited for
	Lost  int // of them, that do not
}

// Resumed says that the actor has started, with nothing under way: what was, went with the one before it.
type Resumed struct{}

// Tick lets time pass: Next says when one is wanted at the latest.
type Tick struct{}

// Effect is something the shell must do, in the order given.
type Effect interface{ isEffect() }

// Beat renews the lease. Where Heartbeats is set the workers' heartbeats are written before the answer is given: their
// rows must not look stale to whoever the store's return finds first. Answer: Renewed, Unanswered or FoundDead.
type Beat struct{ Heartbeats bool }

// Grant says that the lease holds, from when the renewal was asked for, and since when it has been renewed without a gap, for all
// that this node has heard. Each errs to the safe side: a renewal that waited for the store was given some time after it was
// asked for, and one that the node gave up may have been given too, as soon as the store was back.
type Grant struct{ Asked, Steady time.Duration }

// GoOn says that running work goes on although the lease is not renewed.
type GoOn struct{}

// AskPeers asks the others (Machine.Asked) whether they see the store; in an outage with every beat. Answer: Heard.
type AskPeers struct{}

// Declare declares dead whose lease has run out. Answer: Declared.
type Declare struct{}

// Knock asks, once each, whether the addresses of incarnations refuse a connection. One whose address is not known is not among
// those that refuse. Answer: Knocked.
type Knock struct{ Incarnations []messages.Incarnation }

// DeclareGone declares dead those whose process has ended, if they have not renewed and the store still shows it. Answer: Declared.
type DeclareGone struct{ Gone []Gone }

// Rescue takes up what ended incarnations had.
type Rescue struct{}

// Up tells of another incarnation that lives.
type Up struct{ Incarnation messages.Incarnation }

// Down tells that another incarnation has ended.
type Down struct{ Incarnation messages.Incarnation }

// Stands tells how the store stands, at each change.
type Stands struct{ Away bool }

// Fence stops all work. It comes once, and nothing after it.
type Fence struct{ Why string }

func (Renewed) isEvent()    {}
func (Unanswered) isEvent() {}
func (FoundDead) isEvent()  {}
func (Refused) isEvent()    {}
func (PeerLost) isEvent()   {}
func (Knocked) isEvent()    {}
func (Declared) isEvent()   {}
func (Heard) isEvent()      {}
func (Resumed) isEvent()    {}
func (Tick) isEvent()       {}

func (Beat) isEffect()        {}
func (Grant) isEffect()       {}
func (GoOn) isEffect()        {}
func (AskPeers) isEffect()    {}
func (Knock) isEffect()       {}
func (Declare) isEffect()     {}
func (DeclareGone) isEffect() {}
func (Rescue) isEffect()      {}
func (Up) isEffect()          {}
func (Down) isEffect()        {}
func (Stands) isEffect()      {}
func (Fence) isEffect()       {}
