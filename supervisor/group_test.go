package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
)

// diary notes who was started.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *diary) count(line string) int {
	n := 0
	for _, l := range d.read() {
		if l == line {
			n++
		}
	}
	return n
}

func (d *diary) child(name string) ChildSpec {
	return func() actors.Child {
		return actors.Child{Name: name, Kind: "member", New: func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					d.note(name + " started")
				case *actor.Stopped:
					d.note(name + " stopped")
				}
			})
		}}
	}
}

func newGroup(t *testing.T, cfg GroupConfig) (*actors.System, *actor.PID) {
	t.Helper()
	s := actors.NewSystem(hclog.NewNullLogger())
	cfg.System, cfg.Logger, cfg.Name = s, hclog.NewNullLogger(), "group"
	pid, err := s.Spawn(s, NewGroup(cfg))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.StopAndWait(ctx, s.PID("group")))
	})
	_, err = actors.Ask[struct{}, struct{}](t.Context(), s, pid, struct{}{})
	require.NoError(t, err)
	return s, pid
}

func TestGroupStartsInOrderAndAgain(t *testing.T) {
	t.Parallel()
	var d diary
	s, _ := newGroup(t, GroupConfig{Children: []ChildSpec{d.child("a"), d.child("b"), d.child("c")}})
	soon(t, func() bool { return len(d.read()) == 3 }, "all are started")
	s.Send(s.PID("group/b"), &actors.Crash{Reason: "test"})
	soon(t, func() bool { return d.count("b started") == 2 }, "it must be started again")
	require.Equal(t, 1, d.count("a started"), "one for one")
	soon(t, func() bool { info, _ := s.Registry.Get("group"); return info.Restarts == 1 }, "and counted")
	info, _ := s.Registry.Get("group")
	require.Contains(t, info.LastFailure, "group/b: test")
}

func TestGroupGivesUp(t *testing.T) {
	t.Parallel()
	var d diary
	fatal := make(chan error, 1)
	s, _ := newGroup(t, GroupConfig{Children: []ChildSpec{d.child("a")}, Fatal: func(err error) { fatal <- err }})
	for i := range groupIntensity + 1 {
		soon(t, func() bool { return d.count("a started") == i+1 }, "started again")
		s.Send(s.PID("group/a"), &actors.Crash{Reason: fmt.Sprint("crash ", i)})
	}
	require.ErrorContains(t, <-fatal, "group: more than 5 failures in 10s, the last of group/a: crash 5")
	require.Equal(t, groupIntensity+1, d.count("a started"))
}

func TestGroupIntensityForgets(t *testing.T) {
	t.Parallel()
	g := &Group{}
	now := time.Now()
	for i := range 100 {
		require.False(t, g.exceeded(now.Add(time.Duration(i)*groupPeriod/groupIntensity)), i)
	}
	require.LessOrEqual(t, len(g.failures), groupIntensity)
}

// Children that were added come back with their group, unless they were forgotten.
func TestGroupKeepsWhatWasAdded(t *testing.T) {
	t.Parallel()
	var d diary
	added := &Added{}
	s := actors.NewSystem(hclog.NewNullLogger())
	outer := func() actors.Child {
		return NewGroup(GroupConfig{System: s, Name: "pools", Logger: hclog.NewNullLogger(), Added: added})
	}
	_, err := s.Spawn(s, NewGroup(GroupConfig{System: s, Name: "top", Logger: hclog.NewNullLogger(), Children: []ChildSpec{outer}}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.StopAndWait(context.Background(), s.PID("top"))) })
	soon(t, func() bool { _, live := s.Registry.Get("top/pools"); return live }, "the group must live")
	pools := s.PID("top/pools")
	for _, name := range []string{"a", "b", "c"} {
		_, err := actors.Ask[AddChild, *actor.PID](t.Context(), s, pools, AddChild{Spec: d.child(name)})
		require.NoError(t, err)
	}
	_, err = actors.Ask[AddChild, *actor.PID](t.Context(), s, pools, AddChild{Spec: d.child("b")})
	require.Error(t, err, "a living sibling has the name")
	_, err = actors.Ask[ForgetChild, struct{}](t.Context(), s, pools, ForgetChild{PID: s.PID("top/pools/b")})
	require.NoError(t, err)
	require.NoError(t, s.StopAndWait(t.Context(), s.PID("top/pools/b")))
	s.Send(pools, &actors.Crash{Reason: "test"})
	soon(t, func() bool { return d.count("a started") == 2 && d.count("c started") == 2 }, "they must come back")
	require.Equal(t, 1, d.count("b started"))
	require.Equal(t, 1, d.count("b stopped"))
}

// A group whose child cannot be made fails as a whole, and leaves nothing of itself.
func TestGroupThatCannotStart(t *testing.T) {
	t.Parallel()
	var d diary
	s := actors.NewSystem(hclog.NewNullLogger())
	pid, err := s.Spawn(s, NewGroup(GroupConfig{System: s, Name: "group", Logger: hclog.NewNullLogger(), Children: []ChildSpec{
		d.child("a"), d.child("a"),
	}}))
	require.NoError(t, err)
	soon(t, func() bool { return s.Registry.Len() == 0 }, "it must be gone")
	failure, _ := s.Registry.Failure("group")
	require.Contains(t, failure.Reason, "spawn member a")
	_, err = actors.Ask[struct{}, struct{}](t.Context(), s, pid, struct{}{})
	require.True(t, errors.Is(err, actors.ErrGone))
}
