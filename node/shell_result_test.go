package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// A shell command's stdout is its result: whole up to the limit of results, and never cut and taken for completed.
func TestAShellResultIsWholeOrFails(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, shellPack(t, map[string]string{
		"large": `head -c 3000000 /dev/zero | tr '\000' x`, "huge": `head -c 9000000 /dev/zero | tr '\000' x; echo why >&2`,
	}, ""))
	e := k.run("sh.large", nil)
	require.Equal(t, strings.Repeat("x", 3_000_000), result[string](t, e))
	e = k.run("sh.huge", nil)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeResultTooLarge, e.Error.Code)
	require.Equal(t, "why\n", e.Error.Stderr)
	require.Nil(t, e.Result)
}

func TestALongShellParameterIsOnStdin(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, shellPack(t, map[string]string{"where": `echo "$TROUPE_PARAMS_ON_STDIN ${TROUPE_PARAM_TEXT-none} $(wc -c)"`}, ""))
	long := strings.Repeat("x", 100_000)
	e := k.run("sh.where", object{"text": long, "nul": "a\x00b", "n": 1})
	require.Regexp(t, `^NUL,TEXT none 1000\d\d$`, result[string](t, e))
}
