package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/troupe-run/troupe/filelock"
	"github.com/troupe-run/troupe/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed steps/*.sql
var additions embed.FS

// Config says where the store is and how it works. A zero field means its default.
type Config struct {
	Path         string // the file; its folder must exist or be creatable
	EventsAll    bool   // store an event for every change, the straight path too
	Readers      int    // connections that read; default 2
	WaitingMax   int    // write calls that may wait before callers block; default 1024
	GroupRowsMax int    // rows after which a group takes no further call; default 4096
	CachedMax    int    // executions that the writer caches; default 8192
	WalkMax      int    // executions that one page of a list looks at; default store.ListWalk
	// ListFor is how long one page of a list looks before it ends short; default store.ListFor.
	ListFor  time.Duration
	PagesMax int // upper limit of the file, in pages of 4 KiB; 0: none
}

func (c Config) withDefaults() Config {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&c.Readers, 2)
	set(&c.WaitingMax, 1024)
	set(&c.GroupRowsMax, 4096)
	set(&c.CachedMax, 8192)
	set(&c.WalkMax, store.ListWalk)
	if c.ListFor == 0 {
		c.ListFor = store.ListFor
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("store path is empty: give the file's path"))
	}
	if strings.ContainsRune(c.Path, 0) {
		errs = append(errs, fmt.Errorf("store path %q holds a NUL byte", c.Path))
	}
	for name, n := range map[string]int{"readers": c.Readers, "waiting_max": c.WaitingMax, "group_rows_max": c.GroupRowsMax,
		"cached_max": c.CachedMax, "walk_max": c.WalkMax, "pages_max": c.PagesMax} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("store %s must be positive, got %d", name, n))
		}
	}
	if c.ListFor < 0 {
		errs = append(errs, fmt.Errorf("store list_for must be positive, got %v", c.ListFor))
	}
	return errors.Join(errs...)
}

// Store is the embedded adapter. Open makes it.
type Store struct {
	cfg          Config
	clock        *clock
	lock         *filelock.Lock
	queue        chan *request
	quit         chan struct{} // closed by Close
	done         chan struct{} // closed when the writer has ended
	readers      chan *conn
	apart        chan *conn // one, for long answers to callers
	closing      sync.Once
	closed       error
	w            *writer
	checkpointer *checkpointer
	purges       purger

	tellerLock sync.Mutex
	teller     teller
}

var _ store.Store = (*Store)(nil)

// Open opens the store, creates and migrates the file as needed, and holds its lock until Close. Errors:
// store.ErrLocked, store.ErrNewer, store.ErrReadOnly, store.ErrFull, each with the file and what to do.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, mapFileError(cfg.Path, err)
	}
	lock, err := lockFile(cfg.Path + ".lock")
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	go s.w.run()
	go s.checkpointer.run(s.quit)
	return s, nil
}

func open(ctx context.Context, cfg Config) (*Store, error) {
	if err := probe(cfg.Path); err != nil {
		return nil, err
	}
	if err := migrate(ctx, cfg); err != nil {
		return nil, mapError("open "+cfg.Path, err)
	}
	s := &Store{
		cfg: cfg, clock: newClock(), queue: make(chan *request, cfg.WaitingMax),
		quit: make(chan struct{}), done: make(chan struct{}), readers: make(chan *conn, cfg.Readers), apart: make(chan *conn, 1),
	}
	w, err := openWriter(s)
	if err != nil {
		return nil, mapError("open "+cfg.Path, err)
	}
	s.w = w
	if s.checkpointer, err = openCheckpointer(cfg); err != nil {
		return nil, errors.Join(mapError("open "+cfg.Path, err), s.w.close())
	}
	for i := range cfg.Readers + 1 {
		c, err := openConn(cfg, "query_only(1)", "cache_size(-2048)")
		if err != nil {
			return nil, errors.Join(mapError("open "+cfg.Path, err), s.closeConns())
		}
		if i == cfg.Readers {
			s.apart <- c
		} else {
			s.readers <- c
		}
	}
	return s, nil
}

// probe finds a file that cannot be written. SQLite itself would open it read-only without an error.
func probe(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return mapFileError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return mapFileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open %s: it is no regular file: give the store another --data folder", path)
	}
	return nil
}

// pragmas are the settings of every connection. synchronous(2) is FULL: a commit returns when the log is on disk.
func (c Config) pragmas() []string {
	p := []string{"busy_timeout(5000)", "journal_mode(wal)", "synchronous(2)", "temp_store(2)", "trusted_schema(0)"}
	if c.PagesMax > 0 {
		p = append(p, "max_page_count("+strconv.Itoa(c.PagesMax)+")")
	}
	return p
}

// dsn returns the file and its settings for the driver that migrates it.
func dsn(cfg Config) string {
	q := url.Values{}
	for _, p := range cfg.pragmas() {
		q.Add("_pragma", p)
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		path = cfg.Path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// migrate brings the file's schema up to this version, forward only. It refuses a newer schema and does not change it.
func migrate(ctx context.Context, cfg Config) error {
	db, err := sql.Open("sqlite", dsn(cfg))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	known, err := latest()
	if err != nil {
		return err
	}
	has, err := version(ctx, db)
	switch {
	case err != nil:
		return err
	case has > known:
		return fmt.Errorf("open %s: %w: its schema is version %d, this troupe knows up to %d; run the newer troupe, or restore a backup",
			cfg.Path, store.ErrNewer, has, known)
	case has == known:
		return add(ctx, cfg, db)
	}
	steps, err := steps()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(steps...))
	if err != nil {
		return err
	}
	if _, err = p.Up(ctx); err != nil {
		return err
	}
	return add(ctx, cfg, db)
}

// add makes the missing steps that only add to the schema, each in its own transaction. It refuses a file for which this program is too old.
func add(ctx context.Context, cfg Config, db *sql.DB) error {
	known, err := store.StepsIn(additions, "steps")
	if err != nil {
		return err
	}
	made, oldest, err := madeSteps(ctx, db)
	if err != nil {
		return err
	}
	if err := oldest.Check(cfg.Path); err != nil {
		return err
	}
	for _, step := range store.MissingSteps(known, made) {
		if err := addOne(ctx, db, step); err != nil {
			return fmt.Errorf("open %s: step %s: %w", cfg.Path, step.Name, err)
		}
	}
	return nil
}

func addOne(ctx context.Context, db *sql.DB, step store.Step) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, step.SQL); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO schema_step (name, applied_at) VALUES (?, unixepoch() * 1000000)", step.Name); err != nil {
		return err
	}
	return tx.Commit()
}

// madeSteps returns the names of the steps that only add to the schema and were made, and the oldest program that may use the file.
func madeSteps(ctx context.Context, db *sql.DB) (names []string, oldest store.Oldest, err error) {
	tables := 0
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'schema_step'").Scan(&tables)
	if err != nil || tables == 0 {
		return nil, oldest, err
	}
	if err := db.QueryRowContext(ctx, "SELECT generation, release FROM schema_oldest").Scan(&oldest.Generation, &oldest.Release); err != nil {
		return nil, oldest, err
	}
	rows, err := db.QueryContext(ctx, "SELECT name FROM schema_step ORDER BY name")
	if err != nil {
		return nil, oldest, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, oldest, err
		}
		names = append(names, name)
	}
	return names, oldest, rows.Err()
}

// steps returns the migrations. SQLite takes each file as it is, in one transaction: goose would cut it into its statements first, with a
// buffer of 4 MiB for each of its lines that is not found again, which took longer than the migrations themselves.
func steps() ([]*goose.Migration, error) {
	files, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	var list []*goose.Migration
	for _, f := range files {
		number, err := goose.NumericComponent(f.Name())
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(migrations, "migrations/"+f.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, goose.NewGoMigration(number, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, string(text))
			return err
		}}, nil))
	}
	return list, nil
}

// latest returns the newest migration in this program.
func latest() (int64, error) {
	files, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return 0, err
	}
	var top int64
	for _, f := range files {
		n, err := goose.NumericComponent(f.Name())
		if err != nil {
			return 0, err
		}
		top = max(top, n)
	}
	return top, nil
}

// version returns the file's schema version, 0 for a new file.
func version(ctx context.Context, db *sql.DB) (int64, error) {
	var tables, has int64
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&has)
	return has, err
}

// Close ends the writer after the calls that it has taken. Then it closes the connections and releases the lock. Calls
// that still wait end with store.ErrClosed. A second Close waits for the first and returns its error.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.quit)
		<-s.done
		<-s.checkpointer.done
		s.closed = errors.Join(s.closeConns(), s.lock.Close())
	})
	return s.closed
}

func (s *Store) closeConns() error {
	var errs []error
	for i := range s.cfg.Readers + 1 {
		from := s.readers
		if i == s.cfg.Readers {
			from = s.apart
		}
		if c, ok := takeReader(from); ok {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(append(errs, s.checkpointer.c.close(), s.w.close())...)
}
