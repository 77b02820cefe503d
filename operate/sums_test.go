package operate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/operate/view"
)

// The reasons of two nodes are one text, whose parts do not end with the line of a program's stderr.
func TestReasonsOfNodesAreOneText(t *testing.T) {
	t.Parallel()
	sum := poolSum{}
	sum.add("b", false, &view.Pool{Name: "m", Broken: true, Reason: "no module; stderr: trace\n"})
	sum.add("a", true, &view.Pool{Name: "m", Broken: true, Reason: "no file\n"})
	require.Equal(t, "a: no file; b: no module; stderr: trace", sum.views(nil)[0].Reason)
}
