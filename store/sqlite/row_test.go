package sqlite

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func FuzzScanRecord(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`), []byte("0123456789abcdef"), "text", int64(7), uint8(3))
	f.Add([]byte(`{`), []byte("short"), "\x00", int64(-1), uint8(200))
	f.Add([]byte(nil), []byte(nil), "", int64(1)<<62, uint8(0))
	c, err := openPath(":memory:", nil)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, c.close()) })
	f.Fuzz(func(t *testing.T, labels, id []byte, text string, n int64, shape uint8) {
		values := make([]any, 1+int(shape)%(recordWidth+8))
		for i := range values {
			values[i] = []any{n, text, id, labels, nil}[(i+int(shape))%5]
		}
		for _, scan := range []func(row, *record) error{scanRecord, scanFresh, scanWorking} {
			var e record
			err := c.query("SELECT ?"+strings.Repeat(", ?", len(values)-1), func(r row) error { return scan(r, &e) }, values...)
			if err != nil {
				continue
			}
			_, err = json.Marshal(e.Labels)
			require.NoError(t, err)
			require.Equal(t, stage(e.Status) == stageEnded, e.Status.Terminal())
		}
	})
}

func FuzzErrorBytes(f *testing.F) {
	f.Add([]byte(`{"code":"a","message":"b","details":{"c":[1]}}`), "message", []byte(`{"x":1}`))
	f.Add([]byte("\x00\xff"), "\x00\xff", []byte("not json \xff"))
	f.Fuzz(func(t *testing.T, stored []byte, message string, details []byte) {
		if e := store.DecodeError(stored); len(stored) > 0 {
			require.NotNil(t, e)
		}
		in := &messages.Error{Code: "c", Message: message, Details: details}
		out := store.DecodeError(store.EncodeError(in))
		require.Equal(t, messages.Code("c"), out.Code)
		require.True(t, len(out.Details) == 0 || json.Valid(out.Details))
		require.Equal(t, store.EncodeError(in), store.EncodeError(out), "reading and writing again changes nothing")
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	base := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newClock()
	wall := base
	c.read = func() time.Time { return wall }
	require.Equal(t, base, c.now())
	wall = base.Add(-time.Hour)
	require.Equal(t, base, c.now(), "it never goes back")
	wall = base.Add(time.Second)
	require.Equal(t, base.Add(time.Second), c.now())
	wall = base.Add(48 * time.Hour)
	require.Equal(t, wall, c.now(), "a jump forward is followed")

	c = newClock() // with the machine's monotonic clock
	last := c.now()
	for range 1000 {
		now := c.now()
		require.False(t, now.Before(last))
		last = now
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(8)
	kept := &record{Row: store.Row{Execution: messages.Execution{ID: messages.NewExecutionID()}}}
	c.put(kept)
	for range 100 {
		c.put(&record{Row: store.Row{Execution: messages.Execution{ID: messages.NewExecutionID()}}})
		require.Same(t, kept, c.get(kept.ID), "what is asked for stays")
		require.LessOrEqual(t, len(c.hot)+len(c.cold), 8)
	}
	c.drop(kept.ID)
	require.Nil(t, c.get(kept.ID))
}
