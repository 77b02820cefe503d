package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-run/troupe/store"
)

// The SQLSTATE codes that are distinguished.
const (
	codeUnique       = "23505"
	codeFull         = "53100"
	codeReadOnly     = "25006"
	codeDeadlock     = "40P01"
	codeSerialize    = "40001"
	codeLock         = "55P03" // not granted within the lock timeout
	codeCancelled    = "57014" // by the statement timeout
	codeNoMemory     = "53200"
	codeNoDatabase   = "3D000"
	codeNoPrivilege  = "42501"
	codeNoSchema     = "3F000" // none that the user may use
	codePassword     = "28P01"
	codeAuthorize    = "28000"
	codeProtocol     = "08P01"
	codeProgramLimit = "54000"
)

// sqlState returns the server's code for the error, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// ofStatement reports whether an error is the server's word on one statement, or on its transaction, after which the connection serves
// the next one as well as a new connection would. Everything else may be of the connection: where the server behind an address is another
// one now, or takes no more writes, only a new connection finds the right one. A code that is not known here counts as that.
func ofStatement(err error) bool {
	code := sqlState(err)
	return len(code) == 5 && (statementClasses[code[:2]] || statementCodes[code])
}

// statementClasses are the classes of SQLSTATE whose errors are of a statement, statementCodes the codes of other classes.
var (
	statementClasses = map[string]bool{
		"02": true, "0A": true, "20": true, "21": true, "22": true, "23": true, "2B": true, "3F": true, "40": true, "42": true, "44": true, "54": true, "P0": true,
	}
	statementCodes = map[string]bool{
		codeFull: true, codeNoMemory: true, codeLock: true, codeCancelled: true, "55000": true, "55006": true, // not in the state that is needed, in use
	}
)

// dataError reports whether the error comes from the data of one row. Other rows of the group may succeed.
func dataError(err error) bool {
	code := sqlState(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || code == codeProgramLimit
}

// conflicting reports whether the server ended the transaction because of another one. It may be repeated at once.
func conflicting(err error) bool {
	code := sqlState(err)
	return code == codeDeadlock || code == codeSerialize
}

// known reports whether the error is one of the port's.
func known(err error) bool {
	for _, e := range []error{store.ErrNotFound, store.ErrConflict, store.ErrNewer, store.ErrReadOnly, store.ErrFull,
		store.ErrUnavailable, store.ErrClosed, store.ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// mapError maps an error of the server or the connection to one of the port's. If the server did not answer, or only
// said that it ended, the outcome is unknown: store.ErrUnavailable.
func mapError(what string, err error) error {
	if err == nil || known(err) {
		return err
	}
	var wrong unfitError
	switch code := sqlState(err); {
	case errors.As(err, &wrong):
		return err
	case code == codeProtocol && strings.Contains(err.Error(), "unsupported startup parameter"):
		return fmt.Errorf("%s: a pooler stands before the server: give the server's own address (%w)", what, err)
	case code == codeFull:
		return fmt.Errorf("%s: %w: free space on the server's disk; work goes on by itself then (%w)", what, store.ErrFull, err)
	case code == codeReadOnly:
		return fmt.Errorf("%s: %w: give the primary server, not a replica, and see that default_transaction_read_only is off (%w)", what, store.ErrReadOnly, err)
	case code == codeNoPrivilege, code == codeNoSchema:
		return fmt.Errorf("%s: no permission: grant the user CREATE and USAGE on the schema, and its tables (%w)", what, err)
	case code == codeNoDatabase:
		return fmt.Errorf("%s: the database does not exist: create it with UTF8 encoding (%w)", what, err)
	case code == codePassword, code == codeAuthorize:
		return fmt.Errorf("%s: the server refuses the user: check the user, password and pg_hba.conf (%w)", what, err)
	case code == "" || transient(code):
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", what, err)
		}
		mapped := fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
		if ofPart(err) {
			return &store.PartError{Err: mapped, Unsure: isPartial(err)}
		}
		return mapped
	case dataError(err):
		return &store.PartError{Err: fmt.Errorf("%s: %w", what, err), Never: true, Unsure: isPartial(err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ofPart reports whether an error comes from a part of the transaction, which the server has undone: a lock that was
// not granted, a statement that took too long, or data that this process could not send.
func ofPart(err error) bool {
	switch code := sqlState(err); {
	case code == codeLock, code == codeCancelled, code == codeNoMemory, conflicting(err):
		return true
	case code != "":
		return false
	}
	return !ofConnection(err)
}

// ofConnection reports whether an error is of the network, of a connection that ended, or of a call that timed out.
func ofConnection(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	var system syscall.Errno
	if errors.As(err, &network) || errors.As(err, &connect) || errors.As(err, &system) {
		return true
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return pgconn.SafeToRetry(err) || pgconn.Timeout(err)
}

// transient reports whether the same call may succeed later: connection and operator classes, resources, conflicts,
// timeouts.
func transient(code string) bool {
	for _, class := range []string{"08", "40", "53", "55", "57", "58"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return code == "25P03" // idle in a transaction for too long
}

// mapError is the function mapError with the server's name.
func (s *core) mapError(what string, err error) error {
	if err == nil || known(err) {
		return err
	}
	if s.closed() {
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	if sqlState(err) != "" && !ofStatement(err) {
		s.renew(time.Now())
	}
	return mapError(what+" in "+s.where, err)
}

// renewEvery is the least time between two renewals of the pool's connections.
const renewEvery = time.Second

// renew has the pool's connections replaced, those in use once they are given back: an error was none of a statement, and the others may be
// as old as the one that had it.
func (s *core) renew(now time.Time) {
	if last := s.renewed.Load(); now.UnixNano()-last >= int64(renewEvery) && s.renewed.CompareAndSwap(last, now.UnixNano()) {
		s.pool.Reset()
	}
}
