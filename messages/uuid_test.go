package messages

import (
	"bytes"
	"strings"
	"testing"

	google "github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Ids are UUIDv7 as another implementation reads and writes them, and sort by their creation.
func TestIDsAreUUIDs(t *testing.T) {
	t.Parallel()
	var last ExecutionID
	for range 10_000 {
		id := NewExecutionID()
		require.Negative(t, bytes.Compare(last[:], id[:]))
		last = id
		other, err := google.Parse(id.String())
		require.NoError(t, err)
		require.Equal(t, google.UUID(id), other)
		require.Equal(t, google.UUID(id).String(), id.String())
		require.Equal(t, []any{google.Version(7), google.RFC4122}, []any{other.Version(), other.Variant()})
		back, err := ParseExecutionID(strings.ToUpper(id.String()))
		require.NoError(t, err)
		require.Equal(t, id, back)
	}
	seconds, _ := google.UUID(last).Time().UnixTime()
	now, _ := google.UUID(NewExecutionID()).Time().UnixTime()
	require.InDelta(t, seconds, now, 2)
	require.NotEqual(t, NewIncarnation().Short(), NewIncarnation().Short())
}

func TestOnlyTheCanonicalFormIsAnID(t *testing.T) {
	t.Parallel()
	good := NewExecutionID().String()
	for _, bad := range []string{
		"", good[:35], good + "0", "{" + good[:34] + "}", strings.ReplaceAll(good, "-", ""), strings.ReplaceAll(good, "-", "_"),
		"g" + good[1:], good[:35] + "x", good[1:9] + good[8:36],
	} {
		_, err := ParseExecutionID(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParseExecutionID(f *testing.F) {
	f.Add("01a20e2c-6621-7ebf-8225-cfee51f06ea6")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseExecutionID(text)
		other, otherErr := google.Parse(text)
		if len(text) == 36 && otherErr == nil {
			require.NoError(t, err)
			require.Equal(t, google.UUID(id), other)
		} else {
			require.Error(t, err)
		}
	})
}
