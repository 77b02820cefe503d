package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// conn is one connection to the file, used by one goroutine at a time. It prepares each statement once. It calls the
// library directly: database/sql and its driver would triple the cost of a statement, with a mutex for each value (a
// connection here needs none) and an allocation for each value that is not a number.
type conn struct {
	tls      *libc.TLS
	db       uintptr
	stmts    map[string]stmt
	in       arena             // the arguments of the current statement
	interned map[string]string // see row.interned

	reading bool // a statement is at a row
}

// stmt is one prepared statement.
type stmt struct {
	p       uintptr
	params  int
	columns int
}

// stmtsMax bounds the prepared statements of a connection. The adapter itself has fewer.
const stmtsMax = 256

// codeError is an error of the library, with its extended result code.
type codeError struct {
	code int32
	text string
}

func (e *codeError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// openConn opens a connection with the pragmas of cfg and the given ones, each like "name(value)".
func openConn(cfg Config, pragmas ...string) (*conn, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		path = cfg.Path
	}
	return openPath(path, append(cfg.pragmas(), pragmas...))
}

func openPath(path string, pragmas []string) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]stmt{}, interned: map[string]string{}}
	out, err := c.allocate(8)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, out)
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	const flags = lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE | lib.SQLITE_OPEN_NOMUTEX | lib.SQLITE_OPEN_EXRESCODE
	rc := lib.Xsqlite3_open_v2(c.tls, name, out, flags, 0)
	c.db = address(out)
	if err = c.check(rc); err == nil {
		err = c.stablePlans()
	}
	for _, p := range pragmas {
		if err == nil {
			_, err = c.exec("PRAGMA " + p)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// stablePlans keeps a statement's plan for all arguments. Without it some statements are prepared again each time they
// run.
func (c *conn) stablePlans() error {
	args := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(c.tls, args)
	return c.check(lib.Xsqlite3_db_config(c.tls, c.db, lib.SQLITE_DBCONFIG_ENABLE_QPSG, args))
}

func (c *conn) close() error {
	c.forget()
	var err error
	if c.db != 0 {
		err = c.check(lib.Xsqlite3_close_v2(c.tls, c.db))
		c.db = 0
	}
	c.in.free(c)
	c.tls.Close()
	return err
}

// forget ends all prepared statements.
func (c *conn) forget() {
	for _, s := range c.stmts {
		// Finalizing returns the code of the statement's last run, which was handled then.
		lib.Xsqlite3_finalize(c.tls, s.p)
	}
	clear(c.stmts)
}

func (c *conn) allocate(n int) (uintptr, error) {
	p := libc.Xmalloc(c.tls, libc.Tsize_t(n))
	if p == 0 {
		return 0, &codeError{code: lib.SQLITE_NOMEM, text: fmt.Sprintf("no memory for %d bytes", n)}
	}
	return p, nil
}

// check turns a result code into an error.
func (c *conn) check(rc int32) error {
	if rc == lib.SQLITE_OK {
		return nil
	}
	e := &codeError{code: rc, text: libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))}
	if c.db != 0 {
		if more := libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)); more != e.text {
			e.text += ": " + more
		}
	}
	return e
}

func (c *conn) prepare(sql string) (stmt, error) {
	if c.reading {
		return stmt{}, fmt.Errorf("statement %q: another one is being read", sql)
	}
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	if len(c.stmts) >= stmtsMax {
		c.forget()
	}
	out, err := c.allocate(8)
	if err != nil {
		return stmt{}, err
	}
	defer libc.Xfree(c.tls, out)
	text, err := libc.CString(sql)
	if err != nil {
		return stmt{}, err
	}
	defer libc.Xfree(c.tls, text)
	// The statements are this package's own and few, so they stay prepared.
	if err := c.check(lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, out, 0)); err != nil {
		return stmt{}, err
	}
	s := stmt{p: address(out)}
	if s.p == 0 {
		return s, fmt.Errorf("statement %q is empty", sql)
	}
	s.params = int(lib.Xsqlite3_bind_parameter_count(c.tls, s.p))
	s.columns = int(lib.Xsqlite3_column_count(c.tls, s.p))
	c.stmts[sql] = s
	return s, nil
}

// bind sets the statement's arguments. They are copied to the library's memory and stay there until the next statement
// of the connection is bound, so none may be bound while one is read.
func (c *conn) bind(s stmt, args []any) error {
	if len(args) != s.params {
		return fmt.Errorf("statement has %d parameters, got %d arguments", s.params, len(args))
	}
	if err := c.in.reset(c, args); err != nil {
		return err
	}
	for i, a := range args {
		n, rc := int32(i+1), int32(0)
		switch v := a.(type) {
		case nil:
			rc = lib.Xsqlite3_bind_null(c.tls, s.p, n)
		case int64:
			rc = lib.Xsqlite3_bind_int64(c.tls, s.p, n, v)
		case string:
			rc = lib.Xsqlite3_bind_text(c.tls, s.p, n, c.in.text(v), int32(len(v)), 0)
		case []byte:
			if v == nil {
				rc = lib.Xsqlite3_bind_null(c.tls, s.p, n)
				break
			}
			rc = lib.Xsqlite3_bind_blob(c.tls, s.p, n, c.in.bytes(v), int32(len(v)), 0)
		default:
			return fmt.Errorf("argument %d has type %T, want int64, string, []byte or nil", n, a)
		}
		if rc != lib.SQLITE_OK {
			return c.check(rc)
		}
	}
	return nil
}

// exec runs one statement and returns how many rows it changed. Arguments must be int64, string, []byte or nil.
func (c *conn) exec(sql string, args ...any) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	if err := c.bind(s, args); err != nil {
		return 0, err
	}
	rc := lib.Xsqlite3_step(c.tls, s.p)
	for rc == lib.SQLITE_ROW {
		rc = lib.Xsqlite3_step(c.tls, s.p)
	}
	if rc != lib.SQLITE_DONE {
		err = c.check(rc)
	}
	lib.Xsqlite3_reset(c.tls, s.p)
	if err != nil {
		return 0, err
	}
	return int64(lib.Xsqlite3_changes(c.tls, c.db)), nil
}

// query runs one statement and calls each for every row. each must not use the connection, and the row is invalid after
// it returns.
func (c *conn) query(sql string, each func(r row) error, args ...any) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	if err := c.bind(s, args); err != nil {
		return err
	}
	c.reading = true
	defer func() {
		c.reading = false
		lib.Xsqlite3_reset(c.tls, s.p)
	}()
	for {
		switch rc := lib.Xsqlite3_step(c.tls, s.p); rc {
		case lib.SQLITE_ROW:
			if err := each(row{c: c, stmt: s}); err != nil {
				return err
			}
		case lib.SQLITE_DONE:
			return nil
		default:
			return c.check(rc)
		}
	}
}

// number returns the first column of the first row, 0 if there is none.
func (c *conn) number(sql string, args ...any) (int64, error) {
	var n int64
	err := c.query(sql, func(r row) error {
		n = r.integer(0)
		return nil
	}, args...)
	return n, err
}
