package node

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// How often a keyframe is stored, how often the node looks whether one is due, and how much of the stop's time the last one takes.
const (
	keyframeEvery = 5 * time.Minute
	keyframeTick  = time.Second
	keyframeLast  = time.Second / 2
)

// keyframes stores what this node is every few minutes, and once as it starts and stops.
type keyframes struct {
	*base
	operator *operate.Operator

	turn sync.Mutex // held while one is made
	made time.Time  // the last one; zero: none
}

// round stores a keyframe when it is time, first when the node has started.
func (k *keyframes) round(ctx context.Context) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	if !k.phase.started.Load() || k.phase.draining.Load() || !k.made.IsZero() && time.Since(k.made) < keyframeEvery-keyframeTick/2 {
		return nil
	}
	return k.save(ctx, false)
}

// last stores one before the node ends its workers.
func (k *keyframes) last(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, keyframeLast)
	defer cancel()
	k.turn.Lock()
	defer k.turn.Unlock()
	if err := k.save(limited, true); err != nil {
		k.logger.Warn("the last keyframe is not written", "error", err)
	}
}

// save makes a keyframe and stores it. It has the time from before the pools are asked: changes from then on are recorded beside it.
func (k *keyframes) save(ctx context.Context, last bool) error {
	now := time.Now()
	frame := k.frame(ctx, now)
	frame.Last, frame.Draining = last, k.phase.draining.Load()
	b, err := keyframe.Encode(&frame)
	if err != nil {
		return err
	}
	if err := k.store.SaveKeyframe(ctx, store.Keyframe{Incarnation: k.incarnation, At: k.clock.Stored(now), Frame: b}); err != nil {
		return err
	}
	k.made = now
	return nil
}

// frame is what the node has now.
func (k *keyframes) frame(ctx context.Context, now time.Time) keyframe.Frame {
	_, cordoned := k.operator.Cordons.Of("")
	f := keyframe.Frame{Node: k.cfg.Name, Version: k.cfg.Version, Cordoned: cordoned}
	pools := k.pools.DescribeAll(ctx)
	boxes, other := k.mailboxes(pools)
	f.Mailbox = other
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		d := pools[name]
		f.Pools = append(f.Pools, poolFrame(&d, boxes[name], now))
	}
	return f
}

// poolFrame is a pool as it is now.
func poolFrame(d *supervisor.Description, mailbox int, now time.Time) keyframe.Pool {
	p := keyframe.Pool{
		Name: d.Name, Runtime: d.Runtime, Broken: d.Broken != "", Cordoned: d.Cordoned, Mode: d.Lead.Mode.String(), Router: d.Lead.Router,
		Epoch: d.Lead.Epoch, Bound: d.Router.Bound, Mailbox: mailbox,
	}
	for i := range d.Workers {
		w := &d.Workers[i]
		if w.Slot < 0 || w.Slot >= messages.Slot(keyframe.SlotsMax) {
			continue
		}
		for len(p.Slots) <= int(w.Slot) {
			p.Slots = append(p.Slots, keyframe.Slot{})
		}
		p.Slots[w.Slot] = keyframe.Slot{
			Used: true, Generation: w.Generation, State: w.State, Grade: w.Grade, Cordoned: w.Cordoned, Age: max(now.Sub(w.Since), 0),
		}
	}
	return p
}

// mailboxes are the messages in the fullest mailbox of each pool's actors, and of the others.
func (k *keyframes) mailboxes(pools map[string]supervisor.Description) (of map[string]int, other int) {
	of = map[string]int{}
	for _, info := range k.system.Registry.Snapshot() {
		name, within := strings.CutPrefix(info.ID, poolsPath+"/")
		if !within {
			other = max(other, info.MailboxDepth)
			continue
		}
		name, _, _ = strings.Cut(name, "/")
		if _, known := pools[name]; known {
			of[name] = max(of[name], info.MailboxDepth)
		}
	}
	return of, other
}
