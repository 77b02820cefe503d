package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/store/storetest"
	"github.com/troupe-run/troupe/store/storetest/faulty"
)

// With these variables a test starts this binary again as another process. Their values are the store's path.
const (
	crashEnv    = "STORE_CRASH"
	readOnlyEnv = "STORE_READ_ONLY"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		acknowledge(path)
		return
	}
	if path := os.Getenv(readOnlyEnv); path != "" {
		_, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
		fmt.Printf("%t %v\n", errors.Is(err, store.ErrReadOnly), err)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg sqlite.Config
		run func(*testing.T, storetest.Open)
	}{
		"defaults":         {sqlite.Config{}, func(t *testing.T, open storetest.Open) { storetest.Run(t, open) }},
		"events all":       {sqlite.Config{EventsAll: true}, storetest.RunChanges},
		"little is cached": {sqlite.Config{CachedMax: 2, GroupRowsMax: 1}, storetest.RunChanges},
	} {
		if testing.Short() && name != "defaults" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, func(t *testing.T) store.Store { return open(t, c.cfg) })
		})
	}
}

// TestStoreUnderFaults runs the suite through a caller that repeats the calls that a faulty network lost.
func TestStoreUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite a second time: not with -short")
	}
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return faulty.Repeat(faulty.New(open(t, sqlite.Config{}), faulty.Config{Seed: 1}))
	})
}

// acknowledge submits and works off without end, and prints each step after the store has acknowledged it.
func acknowledge(path string) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	say := func(what string, id messages.ExecutionID) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, id)
	}
	worker := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
	for range 4 {
		go func() {
			for {
				e := noop(3)
				if _, err := s.Submit(context.Background(), e); err != nil {
					fmt.Println("error", err)
					return
				}
				for i := range e {
					say("submitted", e[i].ID)
				}
				id := e[0].ID
				out, err := s.Apply(context.Background(), []store.Change{
					&store.Place{ID: id, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute},
					&store.Claim{ID: id, Attempt: 1, Worker: worker, Generation: 1},
					&store.Finish{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}},
				})
				if err != nil || out[2].Verdict != store.Applied {
					fmt.Println("error", err)
					return
				}
				say("completed", id)
			}
		}()
	}
	select {}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	said := map[messages.ExecutionID]string{}
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashEnv+"="+path)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(pipe)
		for n := 0; lines.Scan(); n++ {
			what, text, _ := strings.Cut(lines.Text(), " ")
			id, err := messages.ParseExecutionID(text)
			require.NoError(t, err, lines.Text())
			said[id] = what
			if n == 400+77*round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait(), "it was killed")
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		require.NoError(t, err, "the kernel gave up the dead process's lock")
		for id, what := range said {
			e, err := s.Get(t.Context(), id)
			require.NoError(t, err)
			if what == "completed" {
				require.Equal(t, messages.Completed, e.Status)
			}
		}
		require.NoError(t, s.Close())
	}
	require.Greater(t, len(said), 1000)
}

func TestLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	s := open(t, sqlite.Config{Path: path})
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.ErrorIs(t, err, store.ErrLocked)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, fmt.Sprint("process ", os.Getpid()))
	require.ErrorContains(t, err, "stop that node")
	require.NoError(t, s.Close())
	again, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// TestReadOnly opens the store as a user that may not write it. Root may write anything, so as root another process
// first becomes nobody.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "store-read-only-")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, os.Chmod(folder, 0o700))
		require.NoError(t, os.RemoveAll(folder))
	})
	binary, path := filepath.Join(folder, "test"), filepath.Join(folder, "troupe.db")
	content, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	syscall.ForkLock.RLock() // a program that starts meanwhile would hold the file open for writing, so that it could not be run
	err = os.WriteFile(binary, content, 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, f := range []string{path, path + ".lock"} {
		require.NoError(t, os.Chmod(f, 0o444))
	}
	require.NoError(t, os.Chmod(folder, 0o555))
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env, cmd.Dir = []string{readOnlyEnv + "=" + path}, "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, strings.HasPrefix(string(out), "true "), string(out))
	require.Contains(t, string(out), path)
	require.Contains(t, string(out), "writable")
}

func TestNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	sqlite.Tamper(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, 1)")
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "version 4711")
	files, err2 := filepath.Glob("migrations/*.sql") // ordered by their numbers
	require.NoError(t, err2)
	number, err2 := strconv.Atoi(strings.SplitN(filepath.Base(files[len(files)-1]), "_", 2)[0])
	require.NoError(t, err2)
	require.ErrorContains(t, err, fmt.Sprintf("up to %d;", number))
}

func TestNoStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	garbage := filepath.Join(folder, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte(strings.Repeat("this is no database. ", 1000)), 0o600))
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: garbage})
	require.ErrorContains(t, err, garbage)
	require.ErrorContains(t, err, "not a troupe store")
	content, err := os.ReadFile(garbage)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(content), "this is no database"), "a file that is not ours is left alone")

	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: folder})
	require.ErrorContains(t, err, folder)
	_, err = sqlite.Open(t.Context(), sqlite.Config{})
	require.ErrorContains(t, err, "path is empty")
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "x\x00y"), Readers: -1})
	require.ErrorContains(t, err, "NUL")
	require.ErrorContains(t, err, "readers")
	odd := filepath.Join(folder, "a b?c=d&%41#e", "t.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: odd})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = os.Stat(odd)
	require.NoError(t, err, "the file is where its path says, whatever is in it")
}

// TestFull fills the store to its page limit, like a full disk, and continues when there is space again.
func TestFull(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{PagesMax: 400})
	worker := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
	var stored []messages.Execution
	var err error
	for range 10_000 {
		e := noop(10)
		e[0].Parameters = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
		if _, err = s.Submit(t.Context(), e); err != nil {
			break
		}
		stored = append(stored, e...)
	}
	require.ErrorIs(t, err, store.ErrFull)
	require.ErrorContains(t, err, "troupe.db")
	require.ErrorContains(t, err, "free space")
	require.NotEmpty(t, stored)
	for _, e := range stored[:10] {
		got, err := s.Get(t.Context(), e.ID)
		require.NoError(t, err, "reading goes on")
		require.Equal(t, messages.Requested, got.Status)
		out, err := s.Apply(t.Context(), []store.Change{&store.Place{ID: e.ID, Worker: worker, ClaimWithin: time.Minute}})
		if err != nil { // another index page may not fit
			require.ErrorIs(t, err, store.ErrFull)
			continue
		}
		require.Equal(t, store.Applied, out[0].Verdict)
	}
	sqlite.Raise(t, s, 4000)
	for range 20 {
		_, err = s.Submit(t.Context(), noop(10))
		require.NoError(t, err, "space is back, and the store goes on by itself")
	}
	got, err := s.Get(t.Context(), stored[len(stored)-1].ID)
	require.NoError(t, err)
	require.Equal(t, messages.Requested, got.Status)
}

func TestClose(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []messages.ExecutionID
	for range 8 {
		group.Go(func() {
			for {
				e := noop(1)
				if _, err := s.Submit(t.Context(), e); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("submit while closing: %v", err)
					}
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, e[0].ID)
				mu.Unlock()
			}
		})
		group.Go(func() {
			for {
				if _, err := s.Depths(t.Context()); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("read while closing: %v", err)
					}
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) > 100 }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is one close")
	group.Wait()
	_, err = s.Get(t.Context(), acknowledged[0])
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Apply(t.Context(), []store.Change{&store.Cancel{}})
	require.ErrorIs(t, err, store.ErrClosed)
}

func TestContextEndsTheWait(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{WaitingMax: 1})
	release := sqlite.Hold(s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for range 10 { // one fits the queue, the others block: all end with the context
		group.Go(func() {
			_, err := s.Submit(ctx, noop(1))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("submit with a full queue: %v", err)
			}
		})
	}
	group.Wait()
	close(release)
	_, err := s.Submit(t.Context(), noop(1))
	require.NoError(t, err)
}

// TestJoinEndsOthers checks that Join marks every other incarnation dead, because the lock ensures that no other
// process uses the store.
func TestJoinEndsOthers(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{})
	first, second := messages.NewIncarnation(), messages.NewIncarnation()
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: first, Name: "n"}, time.Minute))
	key := messages.WorkerKey{Incarnation: first, Pool: "go"}
	e := noop(1)
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), []store.Change{&store.Place{ID: e[0].ID, Worker: key, PlacedBy: first, ClaimWithin: time.Minute}})
	require.NoError(t, err)
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: second, Name: "n"}, time.Minute))
	_, err = s.Beat(t.Context(), first, time.Minute)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Beat(t.Context(), second, time.Minute)
	require.NoError(t, err)
	orphans, err := s.Overdue(t.Context(), store.OverdueQuery{Deadline: store.Orphaned, Limit: 10})
	require.NoError(t, err)
	require.Len(t, orphans, 1)
}

// TestHealthyWorkers reads the view for operators on another connection, as they do.
func TestHealthyWorkers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: key.Incarnation, Name: "n", StartedAt: time.Now()}, time.Hour))
	grade := func(want, why string) {
		t.Helper()
		require.Equal(t, want, sqlite.Ask(t, path, "SELECT coalesce((SELECT grade FROM healthy_workers), '')"), why)
	}
	for health, want := range map[string]string{"unknown": "", "unhealthy": "", "degraded": "degraded", "healthy": "healthy"} {
		w := store.Worker{Key: key, ID: "n/go/0", State: "ready", Health: health, Active: true, Beat: time.Now(), BeatEvery: time.Hour}
		require.NoError(t, s.SaveWorkers(t.Context(), []store.Worker{w}))
		grade(want, health)
	}
	require.NoError(t, s.SaveWorkers(t.Context(), []store.Worker{
		{Key: key, ID: "n/go/0", State: "ready", Health: "healthy", Active: true, Beat: time.Now(), BeatEvery: time.Hour},
	}))
	for what, cordon := range map[string]func(bool) error{
		"worker": func(on bool) error { return s.CordonWorker(t.Context(), key, on) },
		"pool":   func(on bool) error { return s.CordonPool(t.Context(), "go", on) },
		"node":   func(on bool) error { return s.CordonNode(t.Context(), key.Incarnation, on) },
	} {
		require.NoError(t, cordon(true))
		grade("", "cordoned "+what)
		require.NoError(t, cordon(false))
		grade("healthy", what)
	}
}

// Steps that only add to the schema are made whatever others there are, and a program goes on with those that it does not know. Where one has
// taken something away, an older program is refused by name.
func TestStepsThatOnlyAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "troupe.db")
	open := func() error {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	require.NoError(t, open())
	sqlite.Tamper(t, path, "INSERT INTO schema_step VALUES ('9999_later', 1)")
	require.NoError(t, open())
	for _, sql := range []string{"DELETE FROM schema_step WHERE name = '0001_session_state'", "DROP TABLE session_try", "DROP TABLE session_aside"} {
		sqlite.Tamper(t, path, sql) // as a program of another branch left it
	}
	require.NoError(t, open())
	sqlite.Tamper(t, path, "UPDATE schema_oldest SET generation = 4711, release = '9.9.0'")
	err := open()
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "it needs troupe 9.9.0 or newer (generation 4711, this is 1)")
}
