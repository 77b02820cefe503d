package arch_test

import (
	_ "embed"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/arch"
)

//go:embed order.txt
var orderText string

const root = "../.."

func load(t *testing.T) (arch.Rules, []arch.Package) {
	t.Helper()
	rules, err := arch.ParseRules(orderText)
	require.NoError(t, err, "order.txt")
	packages, err := arch.Load(t.Context(), root)
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	return rules, packages
}

func TestImportsFollowTheOrder(t *testing.T) {
	t.Parallel()
	rules, packages := load(t)
	requireNone(t, arch.Check(rules, packages))
}

func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	_, packages := load(t)
	for _, p := range packages {
		if strings.HasPrefix(p.Path, "proto/") {
			continue // generated; its words stand in the .proto file
		}
		ok, err := arch.HasDoc(p)
		require.NoError(t, err)
		if !ok {
			t.Errorf("%s has no package doc: say what it decides or owns, what it never does, and who calls it", p.Path)
		}
	}
}

func TestDecisionsArePure(t *testing.T) {
	t.Parallel()
	rules, packages := load(t)
	byPath := map[string]arch.Package{}
	for _, p := range packages {
		byPath[p.Path] = p
	}
	for _, pure := range rules.Pure {
		if strings.HasSuffix(pure, ".go") {
			found, err := arch.ImpureFile(rules, root, pure)
			require.NoError(t, err)
			requireNone(t, found)
			continue
		}
		require.Contains(t, byPath, pure, "order.txt calls a package pure that does not exist")
		found, err := arch.ImpureFiles(byPath[pure])
		require.NoError(t, err)
		requireNone(t, found)
	}
}

// requireNone fails with each finding on a line of its own, and paths as a reader of the module knows them.
func requireNone(t *testing.T, found []string) {
	t.Helper()
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, f := range found {
		t.Error(strings.TrimPrefix(f, abs+string(filepath.Separator)))
	}
}

// A program links what it needs: one that submits over HTTP no library, one that submits in a transaction neither broker nor node.
func TestProgramsLinkNoMoreThanTheyNeed(t *testing.T) {
	t.Parallel()
	rules, _ := load(t)
	require.Len(t, rules.Links, 2)
	for _, link := range rules.Links {
		linked, err := arch.Linked(t.Context(), root, link.Package)
		require.NoError(t, err)
		requireNone(t, arch.CheckLinks(link, linked))
	}
}

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	const module = arch.Module
	link := arch.Link{Package: "pgtx", Allowed: []string{"messages/...", "github.com/jackc"}, Reason: "no broker"}
	require.Empty(t, arch.CheckLinks(link, []string{module + "/pgtx", module + "/messages", module + "/messages/secret", "github.com/jackc/pgx/v5"}))
	require.Equal(t, []string{
		"pgtx links " + module + "/broker: no broker", "pgtx links " + module + ": no broker", "pgtx links google.golang.org/grpc: no broker",
	}, arch.CheckLinks(link, []string{module + "/broker", module, "google.golang.org/grpc"}))
}
