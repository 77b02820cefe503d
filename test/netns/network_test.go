package netns_test

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/test/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is how long nothing must arrive for it to count as lost. Everything here is on one machine.
const quiet = 300 * time.Millisecond

// patience bounds the wait for a healed network.
const patience = 20 * time.Second

// place is a host, or an address of the test's side.
type place struct {
	addr string
	conn net.PacketConn
}

// at opens a socket at an address, in the host's namespace where there is one.
func at(t *testing.T, h *netns.Host, addr string) place {
	t.Helper()
	p := place{addr: addr}
	listen := func() (err error) {
		p.conn, err = net.ListenPacket("udp4", addr+":9000")
		return err
	}
	if h == nil {
		require.NoError(t, listen())
	} else {
		require.NoError(t, h.Do(listen))
	}
	t.Cleanup(func() { require.NoError(t, p.conn.Close()) })
	return p
}

// sent numbers what is sent, so that what comes late is told from what was sent last.
var sent atomic.Int64

// reaches reports whether what one place sends now arrives at the other.
func reaches(t *testing.T, from, to place) bool {
	t.Helper()
	text := strconv.FormatInt(sent.Add(1), 10)
	if _, err := from.conn.WriteTo([]byte(text), &net.UDPAddr{IP: net.ParseIP(to.addr), Port: 9000}); err != nil {
		return false
	}
	require.NoError(t, to.conn.SetReadDeadline(time.Now().Add(quiet)))
	for {
		buffer := make([]byte, 32)
		k, sender, err := to.conn.ReadFrom(buffer)
		if err != nil {
			return false
		}
		if string(buffer[:k]) == text && sender.(*net.UDPAddr).IP.String() == from.addr {
			return true
		}
	}
}

func TestFaultsHitWhatTheyName(t *testing.T) {
	t.Parallel()
	n := netns.Open(t, []string{"store", "broker"}, []string{"a", "b"})
	a, b := n.Host("a"), n.Host("b")
	store, broker := at(t, nil, n.Outside("store")), at(t, nil, n.Outside("broker"))
	pa, pb := at(t, a, a.Addr), at(t, b, b.Addr)
	all := map[string][2]place{
		"a to b": {pa, pb}, "b to a": {pb, pa}, "a to store": {pa, store}, "store to a": {store, pa},
		"a to broker": {pa, broker}, "broker to a": {broker, pa}, "b to store": {pb, store}, "store to b": {store, pb},
	}
	holds := func(when string, lost ...string) {
		t.Helper()
		for name, way := range all {
			want := true
			for _, l := range lost {
				want = want && l != name
			}
			if !want {
				require.False(t, reaches(t, way[0], way[1]), "%s: %s", when, name)
				continue
			}
			// What was healed may take a while: a link comes up, and neighbours are asked for again.
			require.Eventually(t, func() bool { return reaches(t, way[0], way[1]) }, patience, time.Millisecond, "%s: %s", when, name)
		}
	}
	holds("whole")
	for _, c := range []struct {
		name  string
		fault func()
		lost  []string
	}{
		{"a mute to b", func() { a.Mute(b.Addr) }, []string{"a to b"}},
		{"a deaf to b", func() { a.Deafen(b.Addr) }, []string{"b to a"}},
		{"a cut from the store", func() { a.Cut(store.addr) }, []string{"a to store", "store to a"}},
		{"a deaf to the store", func() { a.Deafen(store.addr) }, []string{"store to a"}},
		{"a mute to store and broker", func() { a.Mute(store.addr, broker.addr) }, []string{"a to store", "a to broker"}},
		{"a unplugged", a.Unplug, []string{"a to b", "b to a", "a to store", "store to a", "a to broker", "broker to a"}},
	} {
		c.fault()
		holds(c.name, c.lost...)
		a.Heal()
		holds(c.name + ", healed")
	}
}

// A connection that stands is cut too, in either way, and goes on once the fault is healed.
func TestStandingConnectionsAreCut(t *testing.T) {
	t.Parallel()
	n := netns.Open(t, []string{"store"}, []string{"a"})
	a, store := n.Host("a"), n.Outside("store")
	l, err := net.Listen("tcp", store+":9001")
	require.NoError(t, err)
	defer l.Close()
	var client net.Conn
	require.NoError(t, a.Do(func() (err error) {
		client, err = net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		return err
	}))
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	arrives := func(from, to net.Conn, limit time.Duration) bool {
		_, err := from.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, to.SetReadDeadline(time.Now().Add(limit)))
		_, err = to.Read(make([]byte, 1))
		return err == nil
	}
	for _, fault := range []func(...string){a.Mute, a.Deafen, a.Cut} {
		require.True(t, arrives(client, server, patience))
		require.True(t, arrives(server, client, patience))
		fault(store)
		cutClient := arrives(client, server, quiet)
		cutServer := arrives(server, client, quiet)
		require.False(t, cutClient && cutServer, "nothing was cut")
		a.Heal()
		for _, way := range []struct {
			lost bool
			to   net.Conn
		}{{!cutClient, server}, {!cutServer, client}} {
			if way.lost {
				require.NoError(t, way.to.SetReadDeadline(time.Now().Add(patience)))
				_, err := way.to.Read(make([]byte, 1))
				require.NoError(t, err, "what was sent meanwhile comes once the fault is healed")
			}
		}
	}
}

// A program that is started on a host sees its network and no other, and the file systems that everybody sees.
func TestProgramsRunOnTheHost(t *testing.T) {
	t.Parallel()
	n := netns.Open(t, []string{"store"}, []string{"a"})
	var out strings.Builder
	cmd := exec.Command("ip", "-o", "-4", "addr")
	cmd.Stdout = &out
	require.NoError(t, n.Host("a").Start(cmd))
	require.NoError(t, cmd.Wait())
	require.Contains(t, out.String(), n.Host("a").Addr)
	require.NotContains(t, out.String(), n.Outside("store")+"/")
}

// A network can be made while this process is on the hosts of another, whichever of its threads are there: the process's first
// thread is one of them now and then.
func TestANetworkIsMadeFromAnyThread(t *testing.T) {
	t.Parallel()
	a := netns.Open(t, []string{"store"}, []string{"a"}).Host("a")
	const visitors = 16
	var all sync.WaitGroup
	inside, leave := make(chan struct{}), make(chan struct{})
	defer all.Wait()
	defer close(leave)
	for range visitors {
		all.Go(func() {
			assert.NoError(t, a.Do(func() error {
				inside <- struct{}{}
				<-leave
				return nil
			}))
		})
	}
	for range visitors {
		select {
		case <-inside:
		case <-time.After(patience):
			t.Fatal("the hosts are not entered")
		}
	}
	netns.Open(t, []string{"store"}, []string{"a"})
}

// makerEnv has this test's binary make a network and say so, and wait for its end.
const makerEnv = "NETNS_TEST_MAKER"

// What a maker leaves behind that was killed is removed when the next network is opened, with its processes.
func TestLeftoversAreRemoved(t *testing.T) {
	if os.Getenv(makerEnv) != "" {
		n := netns.Open(t, []string{"store"}, []string{"left"})
		sleeper := exec.Command("sleep", "300")
		require.NoError(t, n.Host("left").Start(sleeper))
		_, err := os.Stdout.WriteString("ready\n")
		require.NoError(t, err)
		require.NoError(t, sleeper.Wait())
		return
	}
	t.Parallel()
	maker := exec.Command(os.Args[0], "-test.run=^TestLeftoversAreRemoved$")
	maker.Env = append(os.Environ(), makerEnv+"=1")
	out, err := maker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, maker.Start())
	buffer := make([]byte, 64)
	k, err := out.Read(buffer)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(buffer[:k]))
	left := spaces(t, maker.Process.Pid)
	require.Len(t, left, 2)
	pids, err := exec.Command("ip", "netns", "pids", left[0]).Output()
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(string(pids)))
	require.NoError(t, maker.Process.Signal(syscall.SIGKILL))
	require.Error(t, maker.Wait())
	require.Len(t, spaces(t, maker.Process.Pid), 2, "a killed maker removes nothing")
	netns.Open(t, []string{"store"}, []string{"a"})
	require.Empty(t, spaces(t, maker.Process.Pid))
}

// spaces are the namespaces of a maker.
func spaces(t *testing.T, pid int) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/run/netns")
	require.NoError(t, err)
	for _, entry := range entries {
		if words := strings.Split(entry.Name(), "-"); len(words) > 1 && words[1] == strconv.Itoa(pid) {
			names = append(names, entry.Name())
		}
	}
	return names
}
