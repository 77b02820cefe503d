package process

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// onlyRoot skips a test that needs root.
func onlyRoot(t *testing.T) {
	t.Helper()
	if err := MaySwitch(); err != nil {
		t.Skip(err)
	}
}

func TestLookUpUser(t *testing.T) {
	t.Parallel()
	root, err := LookUpUser("root")
	require.NoError(t, err)
	require.Equal(t, messages.User{Name: "root", Home: root.Home, Groups: root.Groups}, root)
	same, err := LookUpUser("0")
	require.NoError(t, err)
	require.Equal(t, root, same)
	other, err := LookUpUser("root:12345")
	require.NoError(t, err)
	require.EqualValues(t, 12345, other.GID)
	free, err := LookUpUser("3999999999:7")
	require.NoError(t, err)
	require.Equal(t, messages.User{UID: 3999999999, GID: 7}, free, "a uid needs no name")
	for text, want := range map[string]string{
		"":               "neither a name nor a uid",
		"a b":            "neither a name nor a uid",
		"root:":          "neither a name nor a uid",
		"no-such-user":   "this machine has no user no-such-user",
		"root:no-such-g": "this machine has no group no-such-g",
		"3999999999":     "give a group too, 3999999999:gid",
		"4294967295:0":   "no id",
		"0:4294967295":   "no group 4294967295",
		"99999999999":    "neither a name nor a uid",
	} {
		_, err := LookUpUser(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestMaySwitch(t *testing.T) {
	t.Parallel()
	status := func(effective, ambient string) string {
		return "Name:\ttroupe\nCapInh:\t0000000000000000\nCapEff:\t" + effective + "\nCapBnd:\t000001ffffffffff\nCapAmb:\t" + ambient + "\n"
	}
	const all, none, four = "000001ffffffffff", "0000000000000000", "00000000000000e1"
	for name, c := range map[string]struct {
		status string
		euid   int
		lacks  string // empty: none is missing
	}{
		"root":                             {status(all, none), 0, ""},
		"root with these alone":            {status(four, none), 0, ""},
		"root of a closed container":       {status("00000000000000a1", none), 0, "is root and may not run programs as another user: it lacks CAP_SETGID: give it these"},
		"a user":                           {status(none, none), 1000, "uid 1000, may not run programs as another user: run it as root, or leave the user out"},
		"a user with ambient capabilities": {status(four, four), 1000, "uid 1000, may not"},
		"nothing is told":                  {"", 0, "it lacks CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID: give"},
	} {
		err := maySwitch(c.status, c.euid)
		if c.lacks == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.lacks, name)
	}
}

// A program runs as its user, with only that user's groups and its own umask, with limits and without. It may open its
// pipes again, and is ended like any other.
func TestProgramsOfAnotherUser(t *testing.T) {
	t.Parallel()
	onlyRoot(t)
	g := newGuardian(t, Config{})
	umask := uint32(0o027)
	as := &messages.User{UID: 65534, GID: 65533, Groups: []uint32{12345, 12346}}
	for name, limits := range map[string]messages.Limits{"without a limit": {}, "with a limit": {OpenFiles: 99}} {
		p, events := run(t, g, Spec{User: as, Umask: &umask, Limits: limits, Framed: true, Argv: shell(
			`id -u; id -g; id -G; umask; echo again >/dev/stderr; : >/dev/fd/4; cat /proc/$PPID/environ`)})
		exit, _ := events.exit(t)
		require.NotZero(t, exit.Code, name)
		out := p.TakeOutput()
		require.Equal(t, "65534\n65533\n65533 12345 12346\n0027\n", string(out.Stdout), name)
		require.Equal(t, "again\n", string(out.Stderr[:6]), "%s: %s", name, out.Stderr)
		require.Contains(t, string(out.Stderr), "ermission denied", "the guardian's environment is not its business")
	}
	_, events := run(t, g, Spec{Argv: shell("umask; id -u")})
	_, before := events.exit(t)
	mine, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(mine), "Umask:\t")
	wrote := ""
	for _, e := range before {
		wrote += string(e.(Wrote).Data)
	}
	require.Equal(t, fmt.Sprintf("%s\n%d\n", rest[:4], os.Geteuid()), wrote, "another program's start is as it was")

	p, events := run(t, g, Spec{User: as, Argv: shell("trap '' TERM; echo up; setsid sleep 60 & wait; sleep 60")})
	next[Wrote](t, events)
	p.Terminate()
	p.Kill()
	exit, _ := events.exit(t)
	require.Equal(t, "SIGKILL", exit.Signal)
}

// A variable is passed once, because some programs take the first of two values and others the last.
func TestAVariableIsThereOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"B=", "C=2", "A=3"}, lastOnes([]string{"A=1", "B=", "C=1", "C=2", "A=3"}))
	p, events := run(t, newGuardian(t, Config{}), Spec{Argv: []string{"cat", "/proc/self/environ"}, Env: environment("TWICE=1", "TWICE=2")})
	events.exit(t)
	require.Contains(t, string(p.TakeOutput().Stdout), "\x00TWICE=2\x00")
}

// A program of another user has none of root's capabilities.
func TestProgramsOfAnotherUserHaveNoCapabilities(t *testing.T) {
	t.Parallel()
	onlyRoot(t)
	p, events := run(t, newGuardian(t, Config{}), Spec{User: &messages.User{UID: 65534, GID: 65534}, Argv: []string{"grep", "-E", "^Cap(Prm|Eff|Amb)", "/proc/self/status"}})
	events.exit(t)
	require.Equal(t, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n", string(p.TakeOutput().Stdout))
}

func TestWhatAUserMayNotRun(t *testing.T) {
	t.Parallel()
	onlyRoot(t)
	g := newGuardian(t, Config{})
	closed := t.TempDir()
	require.NoError(t, os.Chmod(closed, 0o700))
	as := &messages.User{UID: 65534, GID: 65534}
	_, err := g.Start(t.Context(), Spec{User: as, Argv: []string{"true"}, Dir: closed, Env: environment()}, func(Event) {})
	require.ErrorContains(t, err, "uid 65534 may not run it, or not enter its working directory "+closed)
	_, err = g.Start(t.Context(), Spec{User: as, Argv: []string{"true"}, Dir: "/", Env: environment()}, func(Event) {})
	require.NoError(t, err)
}

func TestSpawnRequestKeepsItsUser(t *testing.T) {
	t.Parallel()
	umask := uint32(0)
	for _, want := range []spawnRequest{
		{user: &messages.User{UID: 1, GID: 2, Groups: []uint32{3, 4}}, umask: &umask}, {user: &messages.User{}}, {umask: &umask}, {},
	} {
		want.argv, want.env = []string{}, []string{}
		packet, err := want.packet()
		require.NoError(t, err)
		got, err := decodeSpawn(packet[packetHeader:])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
