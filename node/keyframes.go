package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/store"
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
	if k.cfg.Unrecorded {
		return nil
	}
	now := time.Now()
	frame := k.operator.Frame(ctx)
	frame.Version, frame.Last, frame.Draining = k.cfg.Version, last, k.phase.draining.Load()
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

// mailboxes are the messages in the fullest mailbox of each pool's actors, and of the others.
func (b *base) mailboxes() (of map[string]int, other int) {
	of = map[string]int{}
	for _, info := range b.system.Registry.Snapshot() {
		name, within := strings.CutPrefix(info.ID, poolsPath+"/")
		if !within {
			other = max(other, info.MailboxDepth)
			continue
		}
		name, _, _ = strings.Cut(name, "/")
		of[name] = max(of[name], info.MailboxDepth)
	}
	return of, other
}
