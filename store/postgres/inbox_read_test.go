package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A column without the width of its type is a read error. It does not read as the time or the interval of zeros.
func TestForeignColumnsOfAnotherWidth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runAt, timeout []byte
		says           string
	}{
		"no values":   {nil, nil, ""},
		"both right":  {make([]byte, 8), make([]byte, 16), ""},
		"a time":      {make([]byte, 7), nil, "a time of 7 bytes"},
		"an interval": {nil, make([]byte, 12), "an interval of 12 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, v := store.Submission{ID: messages.NewExecutionID()}, &scanner{}
			readForeign(&k, v, c.runAt, c.timeout)
			if c.says == "" {
				require.NoError(t, v.err)
				return
			}
			require.ErrorContains(t, v.err, c.says)
		})
	}
}
