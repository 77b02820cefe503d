package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSetIsWhole(t *testing.T) {
	t.Parallel()
	require.NoError(t, All().Check())
	for i := range All() {
		want := &All()[i]
		got, ok := All().Of(want.Name)
		require.True(t, ok)
		require.Equal(t, want.Name, got.Name)
	}
	_, ok := All().Of("ruby")
	require.False(t, ok)
	require.True(t, All().Handlers().InNode())
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	perl := process
	perl.Name = "perl"
	odd := Spec{Name: "odd", Lifetime: InNode, Code: File, Start: startCommand, Process: "odd process"}
	for _, c := range []struct {
		set  Set
		want []string
	}{
		{append(All(), perl), nil},
		{append(All(), process), []string{`runtime "process": another one has the name`}},
		{Set{process}, []string{"runtimes: one must run handlers, 0 do"}},
		{append(All(), Spec{}), []string{`runtime "": it has no name`, "it has no lifetime", "it does not say how an action names its code", "how a program is started"}},
		{append(All(), odd), []string{"handlers run in the node", "unless it runs in the node", "an example of an entrypoint", "what a worker's program is called", "must be positive"}},
	} {
		err := c.set.Check()
		if c.want == nil {
			require.NoError(t, err)
		}
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	set := All()
	require.Equal(t, "python, node, process, shell or go", set.String())
	require.Equal(t, "shell and process", set.Names("and", func(s *Spec) bool { return s.Code == Command }))
	require.Equal(t, "python, node and go", set.Names("and", func(s *Spec) bool { return s.Code != Command }))
	require.Equal(t, "process", set.Names("and", (*Spec).PoolCommand))
	require.Empty(t, set.Names("and", func(*Spec) bool { return false }))
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[messages.Runtime]int{"python": 4, "node": 9, "process": 4, "shell": 8, "go": 128},
		All().Workers(4, map[messages.Runtime]int{"node": 9, "go": 0}))
	require.Equal(t, map[messages.Runtime]string{"python": "pypy3", "node": "node", "process": "", "shell": "", "go": ""},
		All().Interpreters(map[messages.Runtime]string{"python": "pypy3", "node": ""}))
	require.Equal(t, "128", Count{Fixed: 128}.String())
	require.Equal(t, "two a core", Count{PerCore: 2}.String())
	require.Equal(t, "8 a core", Count{PerCore: 8}.String())
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	own := map[string]string{"PYTHONPATH": "/own", "A": "b"}
	for _, c := range []struct {
		spec   *Spec
		launch Launch
		want   Program
	}{
		{&python, Launch{Interpreter: "py", SDK: "/data"}, Program{
			Argv: []string{"py", "-m", "troupe_worker"},
			Env:  []string{"PYTHONPATH=/data/sdk/python", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"}}},
		{&python, Launch{Interpreter: "py", SDK: "/data", Env: own}, Program{
			Argv: []string{"py", "-m", "troupe_worker"},
			Env:  []string{"PYTHONPATH=/data/sdk/python:/own", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"}}},
		{&node, Launch{Interpreter: "node", SDK: "/data"}, Program{Argv: []string{"node", "/data/sdk/node/main.mjs"}}},
		{&node, Launch{Interpreter: "node", SDK: "/data", BigNumbers: "text"},
			Program{Argv: []string{"node", "/data/sdk/node/main.mjs"}, Env: []string{"TROUPE_BIG_NUMBERS=text"}}},
		{&process, Launch{Root: "/pack", Command: []string{"bin/own", "-v"}}, Program{Argv: []string{"/pack/bin/own", "-v"}}},
		{&shell, Launch{Root: "/pack", Command: []string{"echo", "a/b"}}, Program{Argv: []string{"echo", "a/b"}}},
		{&shell, Launch{Root: "/pack", Command: []string{"/bin/echo"}}, Program{Argv: []string{"/bin/echo"}}},
	} {
		require.Equal(t, c.want, c.spec.Start(c.launch), c.spec.Name)
	}
}
