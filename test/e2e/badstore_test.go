package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoreLockedByAnotherNode starts a second node on the folder of a running one.
func TestStoreLockedByAnotherNode(t *testing.T) {
	t.Parallel()
	first := start(t, options{})
	text := refused(t, options{data: first.data})
	require.Contains(t, text, fmt.Sprintf("store is in use by another node (process %d holds its lock): stop that node, or give this one another --data folder", first.cmd.Process.Pid))
	first.works(t)
	r := execute(t, "", nil, "migrate", "--data", first.data)
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "in use by another node")
	first.works(t)
	require.NoError(t, first.stop())
}

// sql changes a store's file directly.
func sql(t *testing.T, file, statement string) {
	t.Helper()
	out, err := exec.Command("python3", "-c",
		"import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit(); c.close()", file, statement).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestStoreFromANewerVersion: a node refuses a file with the schema of a later Troupe, and does not change it.
func TestStoreFromANewerVersion(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	id := n.runs(t, "core.echo", object{"kept": "yes"}).text("id")
	require.NoError(t, n.stop())
	file := filepath.Join(n.data, "troupe.db")
	sql(t, file, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, text := range []string{refused(t, options{data: n.data}), execute(t, "", nil, "migrate", "--data", n.data).err} {
		require.Contains(t, text, file)
		require.Contains(t, text, "its schema is version 9999, this troupe knows up to ")
		require.Contains(t, text, "run the newer troupe, or restore a backup")
	}
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "the newer file was changed")
	sql(t, file, "DELETE FROM goose_db_version WHERE version_id = 9999")
	n = n.again(t)
	require.Equal(t, "yes", n.get(t, "/api/v1/executions/"+id).text("result", "kept"))
	require.NoError(t, n.stop())
}

// TestStoreThatIsReadOnly puts the store's folder on a read-only file system. File modes would not do, because root may write to
// any file.
func TestStoreThatIsReadOnly(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	id := n.runs(t, "core.echo", object{"kept": "yes"}).text("id")
	require.NoError(t, n.stop())
	text := refused(t, options{data: n.data, mounts: fmt.Sprintf("mount --bind '%[1]s' '%[1]s'; mount -o remount,ro,bind '%[1]s'", n.data)})
	require.Contains(t, text, filepath.Join(n.data, "troupe.db"))
	require.Contains(t, text, "read-only")
	require.Contains(t, text, "make the file and its folder writable for this user")
	n = n.again(t)
	require.Equal(t, "yes", n.get(t, "/api/v1/executions/"+id).text("result", "kept"))
	require.NoError(t, n.stop())
}

// TestStoreOnAFullDisk fills the disk under a working node. The node refuses what it cannot store, with a clear error. Accepted
// executions continue when there is room again, and each has one outcome.
func TestStoreOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	n := start(t, options{
		data: filepath.Join(dir, "data"), mounts: fmt.Sprintf("mount -t tmpfs -o size=24m tmpfs '%s'", dir),
	})
	var accepted []string
	for range 4 {
		accepted = append(accepted, n.submit(t, "core.sleep", object{"seconds": 0.5}).text("id"))
	}
	ballast := fill(t, n.cmd.Process.Pid, dir)
	text := strings.Repeat("x", 64<<10)
	status, answer := 0, object{}
	for range 500 {
		status, answer = n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.shell_echo", "parameters": object{"text": text}})
		if status != http.StatusCreated {
			break
		}
		accepted = append(accepted, answer.text("id"))
	}
	require.Equal(t, http.StatusInsufficientStorage, status, "%v", answer)
	require.Equal(t, "storage_full", answer.text("error", "code"))
	require.Contains(t, answer.text("error", "message"), "the store is out of space; free some and try again")
	r := n.troupe(t, "submit", "core.shell_echo", "text="+text[:32<<10])
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "out of space")
	n.disk(t, func() int {
		status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.shell_echo", "parameters": object{"text": text}})
		if status == http.StatusCreated {
			accepted = append(accepted, answer.text("id"))
		}
		return status
	})
	require.NotEmpty(t, n.get(t, "/api/v1/executions").list("executions"), "what is stored can still be read")

	require.NoError(t, os.Remove(ballast))
	for _, id := range accepted {
		e := n.finish(t, id)
		require.Equal(t, "completed", e.text("status"), "%v", e)
	}
	n.works(t)
	require.NoError(t, n.stop())
}

// disk checks how a node reports its full disk: /readyz names it, and the log has one error, however many submissions are
// refused.
func (n *node) disk(t *testing.T, offer func() int) {
	t.Helper()
	refused := 0
	await(t, "/readyz names the disk, after 100 refusals", func() bool {
		if offer() == http.StatusInsufficientStorage {
			refused++
		}
		status, body := n.raw(t, "GET", "/readyz", nil)
		return status == http.StatusServiceUnavailable && strings.Contains(string(body), "store: out of space on its disk since ") && refused >= 100
	})
	var errs []string
	for _, line := range n.log.lines() {
		if line.Level == "error" {
			errs = append(errs, line.text)
		}
	}
	require.Len(t, errs, 1, "%d refusals", refused)
	require.Contains(t, errs[0], "store is out of space; nothing new is taken until there is some on its disk")
}

// fill writes a file at dir, as the process sees it, until the file system is full.
func fill(t *testing.T, pid int, dir string) string {
	t.Helper()
	path := filepath.Join(fmt.Sprintf("/proc/%d/root", pid), dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; size /= 2 {
		block := make([]byte, size)
		for err == nil {
			_, err = f.Write(block)
		}
		require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
		err = nil
	}
	return path
}
