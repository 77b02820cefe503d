package peers

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// on sets the machine that a network believes to be on; empty: it cannot tell.
func on(machine string) func(*Config) {
	return func(c *Config) { c.Machine = func() string { return machine } }
}

// beyond has a network advertise an address that is no loopback one.
func beyond(c *Config) {
	c.Settings = Settings{Listen: "127.0.0.1:0", Advertise: "10.0.0.5:7071", Insecure: true}
}

// Nodes know those alone whose address means the same to both.
func TestScopes(t *testing.T) {
	t.Parallel()
	const loop, far = "127.0.0.1:9", "10.0.0.6:7071"
	for _, c := range []struct {
		name           string
		own            []func(*Config)
		address, scope string
		known          bool
	}{
		{"loopback, of this machine", []func(*Config){on("m/1")}, loop, "m/1", true},
		{"loopback, of another network on it", []func(*Config){on("m/1")}, loop, "m/2", false},
		{"loopback, of an older version", []func(*Config){on("m/1")}, loop, "", false},
		{"loopback by name", []func(*Config){on("m/1")}, "localhost:9", "", false},
		{"beyond, seen from loopback", []func(*Config){on("m/1")}, far, "", false},
		{"beyond, seen from beyond", []func(*Config){on("m/1"), beyond}, far, "", true},
		{"loopback, seen from beyond", []func(*Config){on("m/1"), beyond}, loop, "m/1", false},
		{"loopback of an older version, seen from beyond", []func(*Config){on("m/1"), beyond}, loop, "", false},
		{"seen from a machine that cannot tell", []func(*Config){on("")}, far, "", false},
		{"loopback, seen from a machine that cannot tell", []func(*Config){on("")}, loop, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, other := open(t, c.own...), messages.NewIncarnation()
			row := store.Node{Incarnation: other, Name: "other", PeerAddress: c.address, PeerScope: c.scope, PeerProof: 1}
			require.Equal(t, c.known, a.Know(row))
			require.Equal(t, c.known, a.Know(row), "again")
			require.Equal(t, c.known, len(a.Peers()) == 1)
			if !c.known {
				require.Equal(t, membership.Heard{}, a.hears(patience, &side{own: other}), "nobody could be asked")
			}
		})
	}
}

func TestWhatIsAdvertised(t *testing.T) {
	t.Parallel()
	a := open(t, on("m/1"))
	address, scope := a.Advertised()
	require.Equal(t, a.Address(), address)
	require.Equal(t, "m/1", scope)
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.NotEqual(t, "0", port, "the port that it was given")

	address, scope = open(t, on("m/1"), beyond).Advertised()
	require.Equal(t, "10.0.0.5:7071", address)
	require.Empty(t, scope, "it means the same everywhere")

	address, scope = open(t, on("")).Advertised()
	require.Empty(t, address, "nobody could know which machine's it is")
	require.Empty(t, scope)
}

func TestTheMachine(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	boot, namespace := filepath.Join(folder, "boot_id"), filepath.Join(folder, "net")
	require.Empty(t, machineOf(boot, namespace), "neither can be read")
	require.NoError(t, os.WriteFile(boot, []byte("f5f5\n"), 0o600))
	require.Empty(t, machineOf(boot, namespace), "the namespace cannot be read")
	for link, want := range map[string]string{"net:[4026531840]": "f5f5/4026531840", "net:[]": "", "4026531840": "", "net:[1": ""} {
		require.NoError(t, os.RemoveAll(namespace))
		require.NoError(t, os.Symlink(link, namespace))
		require.Equal(t, want, machineOf(boot, namespace), link)
	}
	require.NoError(t, os.WriteFile(boot, []byte("\n"), 0o600))
	require.Empty(t, machineOf(boot, namespace), "no boot")
	require.Regexp(t, `^[0-9a-f-]{36}/[0-9]+$`, machine(), "what the kernel says here")
	require.Equal(t, machine(), machine())
}

// A request that reaches the node which has the address now, and was meant for the one before, is not carried out there.
func TestARequestForTheOneBeforeOnTheAddress(t *testing.T) {
	t.Parallel()
	var carried atomic.Int64
	kills := func(c *Config) {
		c.Handlers = []Handler{Handle(func(context.Context, Request, wire.Kill) (wire.Body, error) {
			carried.Add(1)
			return wire.Ack{}, nil
		})}
	}
	address := servers.OwnAddress()
	at := func(c *Config) { c.Settings.Listen = address }
	a, b := open(t), open(t, kills, at)
	introduce(a, b)
	kill := wire.Kill{Pool: "p", Slot: 1, Generation: 1, By: "ana"}
	_, err := a.Ask(t.Context(), b.own, messages.Placement{}, kill)
	require.NoError(t, err)
	require.Equal(t, int64(1), carried.Load())
	b.end()
	again := open(t, kills, at)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := a.Ask(ctx, b.own, messages.Placement{}, kill)
		require.Error(t, err)
		return again.Counts().Dropped[Misdirected] > 0
	}, patience, time.Millisecond, "it reaches the wrong one")
	require.Equal(t, int64(1), carried.Load())
	require.Zero(t, again.Counts().Received)
}
