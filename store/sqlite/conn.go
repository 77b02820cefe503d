package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"modernc.org/sqlite"
)

// conn is one connection to the file, used by one goroutine at a time, with its statements prepared once. It works
// on the driver itself: database/sql would double the cost of a statement.
type conn struct {
	raw   driver.Conn
	stmts map[string]stmt
	args  []driver.NamedValue
}

type stmt interface {
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.Stmt
}

// stmtsMax bounds the prepared statements of a connection; the adapter itself has fewer.
const stmtsMax = 256

func openConn(dsn string) (*conn, error) {
	raw, err := (&sqlite.Driver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) prepare(sql string) (stmt, error) {
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	if len(c.stmts) >= stmtsMax {
		for text, s := range c.stmts {
			if err := s.Close(); err != nil {
				return nil, err
			}
			delete(c.stmts, text)
		}
	}
	p, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, err
	}
	s := p.(stmt)
	c.stmts[sql] = s
	return s, nil
}

func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs one statement and returns how many rows it changed. Arguments must be int64, string, []byte or nil.
func (c *conn) exec(sql string, args ...any) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.bind(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query runs one statement and hands each row to each; the row is reused.
func (c *conn) query(sql string, each func(row []driver.Value) error, args ...any) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err = rows.Next(row); err != nil {
			break
		}
		if err = each(row); err != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// number returns the first column of the first row, 0 where there is none.
func (c *conn) number(sql string, args ...any) (int64, error) {
	var n int64
	err := c.query(sql, func(row []driver.Value) error {
		n = integer(row[0])
		return nil
	}, args...)
	return n, err
}
