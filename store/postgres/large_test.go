package postgres_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// One call may have more bytes than a message, a statement or a transaction can hold. This test has 17 results of 8
// MiB, on a server that takes 0.4 s for each, and so longer for all than a statement may take.
func TestOneCallOfManyLargeResults(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	slow(t, d, s)
	oneCallOfLargeResults(t, s, 17, repeatedText(messages.ResultMax))
}

// TestWholeCallOfManyLargeResults is the same with 129 results that cannot be compressed, more than a gigabyte: make
// chaos.
func TestWholeCallOfManyLargeResults(t *testing.T) {
	if !whole {
		t.Skip("moves more than a gigabyte: make chaos, or TROUPE_CHAOS=whole")
	}
	oneCallOfLargeResults(t, newBench(t).open(t, postgres.Config{}), 129, randomText(messages.ResultMax))
}

func oneCallOfLargeResults(t *testing.T, s *postgres.Store, count int, result []byte) {
	t.Helper()
	key := joined(t, s)
	e := noop(count)
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	var places, claims, ends []store.Change
	for i := range e {
		places = append(places, placeOf(e[i].ID, key))
		claims = append(claims, &store.Claim{ID: e[i].ID, Attempt: 1, Worker: key, Generation: 1})
		ends = append(ends, &store.Finish{ID: e[i].ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: result}})
	}
	for _, changes := range [][]store.Change{places, claims, ends} {
		_, err := s.Beat(t.Context(), key.Incarnation, time.Hour)
		require.NoError(t, err)
		out, err := s.Apply(t.Context(), changes)
		require.NoError(t, err)
		for i, r := range out {
			require.Equal(t, store.Applied, r.Verdict, i)
		}
	}
	for _, i := range []int{0, count / 2, count - 1} {
		got, err := s.Get(t.Context(), e[i].ID)
		require.NoError(t, err)
		require.True(t, bytes.Equal(result, got.Result))
	}
}

var whole = os.Getenv("TROUPE_CHAOS") == "whole"

// slow makes the server take time for each long result.
func slow(t *testing.T, d *bench, s *postgres.Store) {
	t.Helper()
	c := d.connect(t, s.Schema())
	defer c.Close(t.Context())
	_, err := c.Exec(t.Context(), `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END $$;
 CREATE TRIGGER slow BEFORE INSERT ON outcome FOR EACH ROW EXECUTE FUNCTION slow()`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// repeatedText returns a JSON text of n bytes.
func repeatedText(n int) []byte {
	return append(append([]byte{'"'}, bytes.Repeat([]byte("0123456789abcde "), n/16-1)...), bytes.Repeat([]byte{'"'}, 1)...)
}

// randomText returns a JSON text of n bytes that no server compresses.
func randomText(n int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	out, seed := make([]byte, n), uint64(1)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = letters[seed>>58]
	}
	out[0], out[n-1] = '"', '"'
	return out
}

// A group of submissions is also divided by bytes.
func TestOneCallOfManyLargeSubmissions(t *testing.T) {
	t.Parallel()
	oneCallOfLargeSubmissions(t, repeatedText(messages.ParametersMax-16))
}

// TestWholeCallOfManyLargeSubmissions is the same with parameters that cannot be compressed: make chaos.
func TestWholeCallOfManyLargeSubmissions(t *testing.T) {
	if !whole {
		t.Skip("40 MiB that cannot be compressed: make chaos, or TROUPE_CHAOS=whole")
	}
	oneCallOfLargeSubmissions(t, randomText(messages.ParametersMax-16))
}

func oneCallOfLargeSubmissions(t *testing.T, text []byte) {
	t.Helper()
	s := newBench(t).open(t, postgres.Config{})
	e := noop(40)
	for i := range e {
		e[i].Parameters = append(append([]byte(`{"a":`), text...), '}')
	}
	out, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	require.Len(t, out, len(e))
	got, err := s.Get(t.Context(), e[39].ID)
	require.NoError(t, err)
	require.True(t, bytes.Equal(e[39].Parameters, got.Parameters))
}
