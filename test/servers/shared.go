package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Where servers are found: the environment's URL first, then the default port.
const (
	postgresEnv  = "TROUPE_TEST_POSTGRES"
	postgresAddr = "127.0.0.1:5432"
	rabbitAddr   = "127.0.0.1:5672"
)

// RabbitEnv is the setting that names the RabbitMQ of the tests by its URL.
const RabbitEnv = "TROUPE_TEST_RABBITMQ"

// missing names the three ways to a server.
func missing(what, env, addr, pkg string, err error) error {
	return fmt.Errorf("tests need %s: set %s to the URL of a server that tests may use, or start one on %s "+
		"(with its default account), or install its programs, so that tests start their own (`make test` does so on "+
		"Debian as root or with sudo: apt-get install %s): %w", what, env, addr, pkg, err)
}

// found is a server that tests of this process share.
type found struct {
	url string
	how string
}

var postgresFound = sync.OnceValues(func() (found, error) {
	if url := os.Getenv(postgresEnv); url != "" {
		return announce("Postgres", found{url, "named by " + postgresEnv}, ping(url), postgresEnv)
	}
	url := "postgres://postgres@" + postgresAddr + "/postgres?sslmode=disable"
	if ping(url) == nil {
		return announce("Postgres", found{url, "found on the default port"}, nil, "")
	}
	private, err := StartPostgres(PostgresOptions{Unsafe: true})
	if err != nil {
		return found{}, err
	}
	return announce("Postgres", found{private.URL, "private, since none was found"}, nil, "") // its keeper ends it
})

// roomyPostgres is a server for many nodes at a time.
var roomyPostgres = sync.OnceValues(func() (found, error) {
	if os.Getenv(postgresEnv) != "" {
		return postgresFound()
	}
	private, err := StartPostgres(PostgresOptions{Unsafe: true, Settings: map[string]string{"max_connections": "300"}})
	if err != nil {
		return found{}, err
	}
	return announce("Postgres", found{private.URL, "private, for more connections than a server takes by itself"}, nil, "")
})

var rabbitFound = sync.OnceValues(func() (found, error) {
	if url := os.Getenv(RabbitEnv); url != "" {
		return announce("RabbitMQ", found{url, "named by " + RabbitEnv}, dial(url), RabbitEnv)
	}
	url, why := "amqp://guest:guest@"+rabbitAddr+"/", "private, since none was found"
	if dial(url) == nil {
		err := declares(url)
		if err == nil {
			f, err := announce("RabbitMQ", found{url, "found on the default port"}, nil, "")
			return f.inVhost(hostCtl), err
		}
		why = fmt.Sprintf("private, since the one on the default port cannot declare a queue, %v", err)
	}
	private, err := StartRabbitMQ(RabbitMQOptions{})
	if err != nil {
		return found{}, err
	}
	return announce("RabbitMQ", found{private.URL, why}, nil, "") // its keeper ends it
})

// announce prints once which server is used; the environment's must answer.
func announce(name string, f found, err error, env string) (found, error) {
	if err != nil {
		return found{}, fmt.Errorf("the %s that %s names does not answer: %w", name, env, err)
	}
	address := f.url
	if u, err := url.Parse(f.url); err == nil {
		address = u.Redacted()
	}
	fmt.Fprintf(os.Stderr, "tests use %s at %s (%s)\n", name, address, f.how)
	return f, nil
}

// hostCtl runs the rabbitmqctl of this machine's own server.
func hostCtl(args ...string) error {
	_, err := runCtl(func(*exec.Cmd) {}, "rabbitmqctl", args...)
	return err
}

// inVhost makes a vhost of this process's own, which its keeper removes at the end with all that is in it. Where it may
// not, or where rabbitmqctl speaks to another server, tests use the default vhost.
func (f found) inVhost(ctl func(...string) error) found {
	vhost := "troupe-test-" + uuid.NewString()
	if ctl("add_vhost", vhost) != nil {
		return f
	}
	if _, err := newKeeper("", "rabbitmqctl", "delete_vhost", vhost); err != nil {
		_ = ctl("delete_vhost", vhost)
		return f
	}
	own := f.url + vhost
	if ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*") != nil || dial(own) != nil {
		return f // the keeper removes the vhost
	}
	return found{own, f.how}
}

// Postgres returns the URL of an empty database for this test, which is removed at the end of the test.
func Postgres(t testing.TB) string {
	t.Helper()
	return databaseOf(t, postgresFound)
}

// RoomyPostgres is as Postgres, on a server of this process's own that takes 300 connections; where TROUPE_TEST_POSTGRES names a server,
// that one has to take as many.
func RoomyPostgres(t testing.TB) string {
	t.Helper()
	return databaseOf(t, roomyPostgres)
}

func databaseOf(t testing.TB, find func() (found, error)) string {
	t.Helper()
	server, err := find()
	if err != nil {
		t.Fatal(err)
	}
	name := "troupe_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	own, err := database(server.url, name)
	if err == nil {
		err = execute(server.url, "CREATE DATABASE "+name)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("make a database on the Postgres of the tests (%s): %w", server.how, err))
	}
	t.Cleanup(func() {
		if err := execute(server.url, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return own
}

// database is the URL of another database of the same server.
func database(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", errors.Join(errors.New(postgresEnv+" must be a URL such as postgres://user@host:5432/postgres"), err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// execute runs one statement on a connection of its own.
func execute(url, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	if err != nil {
		err = fmt.Errorf("%s: %w", statement, err)
	}
	return errors.Join(err, c.Close(ctx))
}

// Execute runs one SQL statement on a database that Postgres made, as another program would.
func Execute(url, statement string) error { return execute(url, statement) }

// Hold holds the locks of a SELECT … FOR UPDATE, like another program's transaction, until release is called.
func Hold(t testing.TB, url, query string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := c.Close(context.Background()); err != nil { // the server rolls its transaction back
			t.Errorf("release %s: %v", query, err)
		}
	})
	t.Cleanup(release)
	results, err := c.PgConn().Exec(ctx, "BEGIN; "+query).ReadAll()
	if err != nil || len(results[len(results)-1].Rows) == 0 {
		t.Fatalf("%s: nothing to hold: %v", query, err)
	}
	return release
}

// Query runs one SQL query, like another program, and returns its rows as texts. NULL is the empty text.
func Query(url, query string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	results, err := c.PgConn().Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", query, err), c.Close(ctx))
	}
	var rows [][]string
	for _, values := range results[0].Rows {
		row := make([]string, len(values))
		for i, value := range values {
			row[i] = string(value)
		}
		rows = append(rows, row)
	}
	return rows, c.Close(ctx)
}

// Looks is a connection for many queries of one number each: a server works for each new connection.
type Looks struct{ conn *pgx.Conn }

// OpenLooks connects; Close ends the connection.
func OpenLooks(url string) (*Looks, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	return &Looks{c}, err
}

// Number runs one SQL query, and returns the integer that it has.
func (l *Looks) Number(query string) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = l.conn.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// Close closes the connection.
func (l *Looks) Close() error { return l.conn.Close(context.Background()) }

// Commits makes so many transactions that insert one row each, on one connection and a table of their own, and returns how long each took.
func Commits(url string, count int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, count)
	_, err = c.Exec(ctx, "CREATE TABLE bare_commit (n int)")
	for n := 0; n < count && err == nil; n++ {
		began := time.Now()
		_, err = c.Exec(ctx, "INSERT INTO bare_commit VALUES ($1)", n)
		took = append(took, time.Since(began))
	}
	return took, errors.Join(err, c.Close(ctx))
}

// RabbitMQ returns the URL of a vhost that tests of this process share, and a unique prefix; all names that the test
// declares begin with it. The vhost is removed when the process ends. If this process cannot make one (it needs the
// rabbitmqctl of a server on the default port), the URL is the server's own, and anything that the test does not delete
// stays there.
func RabbitMQ(t testing.TB) (url, prefix string) {
	t.Helper()
	server, err := rabbitFound()
	if err != nil {
		t.Fatal(err)
	}
	return server.url, "troupe.test." + uuid.NewString()
}
