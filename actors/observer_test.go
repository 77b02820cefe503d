package actors

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// sleeper handles each message as long as it says.
type sleeper struct{}

func (sleeper) Receive(ctx actor.Context) {
	if d, ok := ctx.Message().(time.Duration); ok {
		time.Sleep(d)
	}
}

// An actor that handles one message for too long while others wait is reported once, shown, and let go again; one that is
// only slow, or that has nothing waiting, is not.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := NewSystem(hclog.NewNullLogger())
		logger := hclog.New(&hclog.LoggerOptions{Output: &log})
		observer, err := s.Spawn(s, NewObserver(ObserverConfig{System: s, Logger: logger}))
		require.NoError(t, err)
		pids := map[string]*actor.PID{}
		for _, name := range []string{"stuck", "slow", "alone"} {
			pids[name], err = s.Spawn(s, Child{Name: name, Kind: "test", New: func() actor.Actor { return sleeper{} }})
			require.NoError(t, err)
		}
		s.Send(pids["alone"], time.Minute)
		for range 2 {
			s.Send(pids["stuck"], 25*time.Second)
		}
		for range 10 {
			s.Send(pids["slow"], 5*time.Second)
		}
		time.Sleep(9 * time.Second)
		require.Empty(t, s.Registry.Stuck())
		time.Sleep(6 * time.Second)
		require.Equal(t, []string{"stuck"}, s.Registry.Stuck())
		info, ok := s.Registry.Get("stuck")
		require.True(t, ok)
		require.Equal(t, 13*time.Second, time.Since(info.StuckSince).Round(time.Second))
		tree, err := Ask[Tree, []Info](t.Context(), s, observer, Tree{})
		require.NoError(t, err)
		require.Len(t, tree, 4)
		time.Sleep(15 * time.Second)
		require.Empty(t, s.Registry.Stuck(), "its second message has nothing behind it")
		require.Equal(t, 1, strings.Count(log.String(), "actor is stuck"))
		require.Equal(t, 1, strings.Count(log.String(), "actor goes on"))
		time.Sleep(time.Minute)
		for _, pid := range append([]*actor.PID{observer}, pids["stuck"], pids["slow"], pids["alone"]) {
			require.NoError(t, s.StopAndWait(t.Context(), pid))
		}
		time.Sleep(time.Second) // the library's own goroutines end
	})
}
