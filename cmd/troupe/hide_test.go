package main

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// Only a node hides from the processes of its user, and only a node tells that it could not.
func TestOnlyANodeHides(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0") // so that the node ends before it has begun
	require.NoError(t, err)
	defer taken.Close()
	for _, c := range []struct {
		args  []string
		hides bool
	}{
		{[]string{"version"}, false}, {[]string{"config"}, false}, {[]string{"pools"}, false}, {[]string{"logs", "-f", id1}, false},
		{[]string{"node", "--listen", "127.0.0.1:0", "--pprof-listen", taken.Addr().String()}, true},
	} {
		var out, errs bytes.Buffer
		hidden, forgotten := 0, 0
		a := &app{
			in: strings.NewReader(""), out: &out, err: &errs, inSight: errors.New("the environment"),
			environ: []string{"HOME=" + t.TempDir(), "TROUPE_SERVER=http://127.0.0.1:1"},
			hide:    func() error { hidden++; return errors.New("the process") },
			forget:  func(*config.Loaded) error { forgotten++; return errors.New("the arguments") },
		}
		a.run(t.Context(), c.args)
		said := strings.Count(errs.String(), "secrets of this node are in sight of its user's processes")
		if !c.hides {
			require.Zero(t, hidden, c.args)
			require.NotContains(t, errs.String(), "the environment", c.args)
			require.NotContains(t, errs.String(), "the arguments", c.args)
			continue
		}
		require.Equal(t, []int{1, 1, 1}, []int{hidden, forgotten, said}, "%s", errs.String())
		require.Contains(t, errs.String(), "the environment; the process; the arguments")
	}
}

// Where none of the variables is set nothing of the process is looked at or written over.
func TestNothingIsForgottenWhereNothingIsSet(t *testing.T) {
	t.Parallel()
	names := []string{"TROUPE_TEST_NEVER_SET", "TROUPE_TEST_NEITHER"}
	require.Empty(t, setVariables(names))
	require.NoError(t, forgetVariables(names, names))
	require.NoError(t, forgetArguments(nil))
}

func TestSetVariablesAreForgotten(t *testing.T) {
	t.Setenv("TROUPE_TEST_SET", "")
	t.Setenv("TROUPE_TEST_SHOWN", "x")
	require.Equal(t, []string{"TROUPE_TEST_SET"}, setVariables([]string{"TROUPE_TEST_NEVER_SET", "TROUPE_TEST_SET"}))
	require.NoError(t, forgetVariables([]string{"TROUPE_TEST_SET"}, []string{"TROUPE_TEST_SHOWN"}))
	require.Equal(t, []string{"TROUPE_TEST_SHOWN"}, setVariables([]string{"TROUPE_TEST_SET", "TROUPE_TEST_SHOWN"}))
}
