package pack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/pack"
)

func reloadable() files {
	return files{
		"pack.yaml": "name: p\nversion: '1'\npools:\n  - {name: big, runtime: python, workers: 2, env: {A: b}}\n" +
			"  - {name: small, runtime: shell}\n",
		"actions/one.yaml": "name: one\nruntime: python\nentrypoint: lib/one.py\npool: big\n",
		"actions/two.yaml": "name: two\nruntime: go\n",
		"actions/sh.yaml":  "name: sh\nruntime: shell\ncommand: [ls]\npool: small\n",
		"lib/one.py":       "def run(p): return 1\n",
	}
}

// TestReloadSeesEveryChange makes one change on disk at a time and checks the change that a node gets.
func TestReloadSeesEveryChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(dir string)
		want   pack.Changes
	}{
		"nothing": {func(string) {}, pack.Changes{}},
		"code": {func(dir string) { put(t, dir+"/lib/one.py", "def run(p): return 2\n") },
			pack.Changes{PoolsReplaced: []string{"p.big"}}},
		"new file":  {func(dir string) { put(t, dir+"/lib/helper.py", "") }, pack.Changes{PoolsReplaced: []string{"p.big"}}},
		"file gone": {func(dir string) { require.NoError(t, os.Remove(dir+"/lib/extra.py")) }, pack.Changes{PoolsReplaced: []string{"p.big"}}},
		"mode": {func(dir string) { require.NoError(t, os.Chmod(dir+"/lib/extra.py", 0o755)) },
			pack.Changes{PoolsReplaced: []string{"p.big"}}},
		"compiled and hidden": {func(dir string) {
			put(t, dir+"/lib/__pycache__/one.pyc", "x")
			put(t, dir+"/lib/one.pyc", "x")
			put(t, dir+"/.git/HEAD", "x")
			put(t, dir+"/node_modules/a/b.js", "x")
		}, pack.Changes{}},
		"environment": {func(dir string) { edit(t, dir+"/pack.yaml", "A: b", "A: c") },
			pack.Changes{PoolsReplaced: []string{"p.big"}}},
		"version": {func(dir string) { edit(t, dir+"/pack.yaml", "version: '1'", "version: '2'") },
			pack.Changes{ActionsChanged: []string{"p.one", "p.sh", "p.two"}, PoolsReplaced: []string{"p.big"}}},
		"action": {func(dir string) {
			put(t, dir+"/actions/three.yaml", "name: three\nruntime: node\nentrypoint: lib/one.py\n")
		},
			pack.Changes{ActionsAdded: []string{"p.three"}, PoolsAdded: []string{"node"}, PoolsReplaced: []string{"p.big"}}},
		"action gone": {func(dir string) { require.NoError(t, os.Remove(dir+"/actions/two.yaml")) },
			pack.Changes{ActionsRemoved: []string{"p.two"}, PoolsRemoved: []string{"go"}, PoolsReplaced: []string{"p.big"}}},
		"command": {func(dir string) { edit(t, dir+"/actions/sh.yaml", "[ls]", "[ls, -l]") },
			pack.Changes{ActionsChanged: []string{"p.sh"}, PoolsReplaced: []string{"p.big"}}},
	} {
		dir := write(t, reloadable())
		put(t, dir+"/lib/extra.py", "")
		before, err := pack.Load([]string{dir}, options())
		require.NoError(t, err)
		c.change(dir)
		after, err := pack.Load([]string{dir}, options())
		require.NoError(t, err)
		changes := pack.Diff(before, after)
		require.Equal(t, c.want, changes, name)
		require.Equal(t, name == "nothing" || name == "compiled and hidden", changes.Empty())
	}
}

func TestMoreWorkersReplaceNobody(t *testing.T) {
	t.Parallel()
	dir := write(t, files{
		"pack.yaml":      "name: p\nversion: '1'\npools: [{name: g, runtime: shell, workers: 2}]\n",
		"actions/a.yaml": "name: a\nruntime: shell\ncommand: [ls]\npool: g\n",
	})
	before, err := pack.Load([]string{dir}, options())
	require.NoError(t, err)
	edit(t, dir+"/pack.yaml", "workers: 2", "workers: {min: 2, max: 5}")
	after, err := pack.Load([]string{dir}, options())
	require.NoError(t, err)
	require.Equal(t, pack.Changes{PoolsResized: []string{"p.g"}}, pack.Diff(before, after))
}

func TestLinkedFilesCount(t *testing.T) {
	t.Parallel()
	dir := write(t, reloadable())
	put(t, dir+"/.real/a.py", "1")
	link(t, "../.real/a.py", dir+"/lib/linked.py")
	link(t, "/nowhere/at/all", dir+"/lib/broken")
	before, err := pack.Load([]string{dir}, options())
	require.NoError(t, err)
	put(t, dir+"/.real/a.py", "2")
	after, err := pack.Load([]string{dir}, options())
	require.NoError(t, err)
	require.Equal(t, pack.Changes{PoolsReplaced: []string{"p.big"}}, pack.Diff(before, after))
}

func TestDiffWithNothing(t *testing.T) {
	t.Parallel()
	set, err := pack.Load([]string{write(t, reloadable())}, options())
	require.NoError(t, err)
	require.Equal(t, pack.Changes{ActionsAdded: []string{"p.one", "p.sh", "p.two"}, PoolsAdded: []string{"go", "p.big", "p.small"}}, pack.Diff(nil, set))
	require.Equal(t, pack.Changes{ActionsRemoved: []string{"p.one", "p.sh", "p.two"}, PoolsRemoved: []string{"go", "p.big", "p.small"}}, pack.Diff(set, nil))
	require.True(t, pack.Diff(set, set).Empty())
}

func edit(t *testing.T, path, old, new string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Clean(path))
	require.NoError(t, err)
	require.Contains(t, string(content), old)
	put(t, path, strings.Replace(string(content), old, new, 1))
}

func FuzzLoad(f *testing.F) {
	f.Add(fullPack, fullAction)
	f.Add("name: core\nversion: '1'\n", "name: a\nruntime: go\n"+strictSchema)
	f.Add(goodPack+"pools: [{name: m, runtime: process, command: [x]}]", "name: a\nruntime: process\npool: m\n")
	f.Add("a: &a [*a]", "<<: {}\n? [x]\n: !!binary y")
	f.Add("--- !!float x", "!!map {name: !!int x, timeout_seconds: !!float abc}")
	f.Fuzz(func(t *testing.T, packYAML, actionYAML string) {
		dir := write(t, files{"pack.yaml": packYAML, "actions/a.yaml": actionYAML, "actions/embed.py": ""})
		set, err := pack.Load([]string{dir}, options())
		if err != nil {
			require.Nil(t, set)
			require.NotEmpty(t, err.Error())
			return
		}
		for _, a := range set.Actions {
			require.Regexp(t, `^[a-z0-9_]+(\.[a-z0-9_]+)+$`, a.Ref)
			_, ok := set.Pool(a.Pool)
			require.True(t, ok)
			require.NotErrorIs(t, set.Validate(t.Context(), a.Ref, nil), pack.ErrUnknownAction)
		}
	})
}

// A pool may serve several packs. PacksOf returns those that changed.
func TestPacksOfAPoolAreThoseThatChanged(t *testing.T) {
	t.Parallel()
	pack1 := files{"pack.yaml": "name: a\nversion: '1'\n", "actions/x.yaml": "name: x\nruntime: python\nentrypoint: x.py\n", "x.py": "def run(p): return 1\n"}
	pack2 := files{"pack.yaml": "name: b\nversion: '1'\n", "actions/y.yaml": "name: y\nruntime: python\nentrypoint: y.py\n", "y.py": "def run(p): return 1\n"}
	first, second := write(t, pack1), write(t, pack2)
	before, err := pack.Load([]string{first, second}, options())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, pack.PacksOf(nil, before, "python"))
	require.Equal(t, []string{"a", "b"}, pack.PacksOf(before, before, "python"), "nothing changed")
	put(t, second+"/y.py", "import nothing_of_that_name\n")
	after, err := pack.Load([]string{first, second}, options())
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, pack.PacksOf(before, after, "python"))
	require.Empty(t, pack.PacksOf(before, after, "shell"))
}
