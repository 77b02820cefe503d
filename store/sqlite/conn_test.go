package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
)

func memoryConn(t *testing.T) *conn {
	c, err := openPath(":memory:", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.close()) })
	return c
}

func TestConnKeepsValues(t *testing.T) {
	t.Parallel()
	c := memoryConn(t)
	_, err := c.exec("CREATE TABLE v (n INTEGER PRIMARY KEY, a, b)")
	require.NoError(t, err)
	for _, size := range []int{0, 1, 127, 4096, arenaKept, 3 << 20, 10} {
		text, blob := strings.Repeat("x", size)+"\x00é", bytes.Repeat([]byte{0, 255}, size)
		n, err := c.exec("INSERT INTO v (a, b) VALUES (?, ?)", text, blob)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		err = c.query("SELECT n, a, b, NULL, typeof(a), typeof(b) FROM v WHERE a = ? ORDER BY n DESC LIMIT 1", func(r row) error {
			s := scanner{row: r, n: 1}
			require.Equal(t, text, s.text())
			require.Equal(t, blob, append([]byte{}, s.bytes()...))
			require.Nil(t, s.bytes())
			require.Equal(t, "text", s.interned())
			require.Equal(t, "blob", s.interned())
			require.NoError(t, s.err)
			require.Zero(t, s.integer())
			require.ErrorContains(t, s.err, "only 6 columns")
			return nil
		}, text)
		require.NoError(t, err)
		require.LessOrEqual(t, len(c.interned), internedMax)
	}
	n, err := c.number("SELECT count(*) FROM v WHERE a IS NULL OR b IS NULL")
	require.NoError(t, err)
	require.Zero(t, n, "what is empty is not NULL")
}

func TestConnRefuses(t *testing.T) {
	t.Parallel()
	c := memoryConn(t)
	_, err := c.exec("SELECT ?")
	require.ErrorContains(t, err, "1 parameters, got 0")
	_, err = c.exec("SELECT ?", 1.5)
	require.ErrorContains(t, err, "float64")
	_, err = c.exec("SELEKT")
	require.ErrorContains(t, err, "syntax error")
	_, err = c.exec(" -- nothing")
	require.ErrorContains(t, err, "is empty")
	_, err = c.exec("CREATE TABLE u (x UNIQUE)")
	require.NoError(t, err)
	_, err = c.exec("INSERT INTO u VALUES (1), (1)")
	require.Equal(t, lib.SQLITE_CONSTRAINT, resultCode(err))
	require.True(t, dataError(err))
	mine := errors.New("mine")
	err = c.query("SELECT 1 UNION ALL SELECT 2", func(row) error { return mine })
	require.ErrorIs(t, err, mine)
	err = c.query("SELECT 1", func(row) error {
		_, err := c.number("SELECT 2")
		return err
	})
	require.ErrorContains(t, err, "being read")
	n, err := c.number("SELECT 3")
	require.NoError(t, err, "and the connection goes on")
	require.EqualValues(t, 3, n)
}

func TestConnIsBounded(t *testing.T) {
	t.Parallel()
	c := memoryConn(t)
	for i := range 2 * internedMax {
		n, err := c.number(fmt.Sprintf("SELECT %d", i))
		require.NoError(t, err)
		require.EqualValues(t, i, n)
		require.LessOrEqual(t, len(c.stmts), stmtsMax)
		require.NoError(t, c.query("SELECT ?", func(r row) error {
			require.Equal(t, fmt.Sprint("word", i), r.interned(0))
			return nil
		}, fmt.Sprint("word", i)))
		require.LessOrEqual(t, len(c.interned), internedMax)
	}
	_, err := c.exec("SELECT ?", make([]byte, 1<<20))
	require.NoError(t, err)
	_, err = c.exec("SELECT ?", "x")
	require.NoError(t, err)
	require.LessOrEqual(t, c.in.size, arenaKept, "a large value's room is given back")
}
