package journal

import (
	"encoding/json"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// ConditionChanged is what an entry of a pool's condition says in What. Its Reason is the condition as roster.Reason names it.
const ConditionChanged = "condition"

// ConditionDetail is the detail of such an entry where the condition changed more than once. From At to Until it was each of the
// conditions for a share of the time, and Reason is the one with the largest. After Until it is Then.
//
// An entry without a detail says that from At on the condition is Reason. Both hold until the next entry about the pool by the
// same node.
type ConditionDetail struct {
	Until  time.Time          `json:"until,omitzero"`
	Then   string             `json:"then,omitempty"`
	Shares map[string]float64 `json:"shares,omitempty"`
}

// conditions bounds the reasons that Condition counts.
const conditions = 32

// tellAgain is how often a condition that lasts is told again, so that retention does not delete all that is known of it.
const tellAgain = time.Hour

// ConditionLasts is how long the condition of an entry holds at most where no later one follows: by then it is told again.
const ConditionLasts = tellAgain + time.Minute

// Condition follows the condition of one pool. The zero value knows nothing.
type Condition struct {
	now   roster.Reason
	known bool
	flips int                       // since the last entry
	first time.Time                 // of them
	since time.Time                 // of the last of them
	times [conditions]time.Duration // from first to since, by condition
	told  time.Time                 // when the last entry was made
}

// Note takes the condition at a time. Times do not go back.
func (c *Condition) Note(at time.Time, now roster.Reason) {
	if c.known && now == c.now || int(now) >= conditions {
		return
	}
	if c.flips == 0 {
		c.first, c.times = at, [conditions]time.Duration{}
	} else {
		c.times[c.now] += at.Sub(c.since)
	}
	c.flips++
	c.now, c.known, c.since = now, true, at
}

// Take returns the entry about the changes since the last one, if there were any, or one that says again what holds. Stored turns a
// time of Note into one of the store's clock.
func (c *Condition) Take(at time.Time, pool string, stored func(time.Time) time.Time) (messages.JournalEntry, bool) {
	if c.flips == 0 {
		if !c.known || c.now == roster.Handed || at.Sub(c.told) < tellAgain {
			return messages.JournalEntry{}, false
		}
		c.first = at
	}
	c.told = at
	e := messages.JournalEntry{
		At: stored(c.first), Kind: messages.JournalPool, Subject: pool, What: ConditionChanged, Reason: c.now.String(),
	}
	if c.flips > 1 && at.After(c.first) {
		c.times[c.now] += at.Sub(c.since)
		e.Reason, e.Detail = c.shares(at.Sub(c.first), stored(at))
	}
	c.flips = 0
	return e, true
}

// shares returns the condition with the largest share of the time, and the detail.
func (c *Condition) shares(of time.Duration, until time.Time) (largest string, detail json.RawMessage) {
	d := ConditionDetail{Until: until, Then: c.now.String(), Shares: map[string]float64{}}
	most := roster.Reason(0)
	for r, took := range c.times {
		if took > c.times[most] {
			most = roster.Reason(r)
		}
		if share := math.Round(float64(took)/float64(of)*1000) / 1000; share > 0 {
			d.Shares[roster.Reason(r).String()] = share
		}
	}
	detail, err := json.Marshal(d)
	if err != nil { // numbers and texts always encode
		return most.String(), nil
	}
	return most.String(), detail
}
