package pgtx_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/embedded"
)

func TestMain(m *testing.M) {
	embedded.RunHelper()
	syscall.Umask(0o022) // tests' folders are nodes' data folders; a node refuses one that others may write to
	os.Exit(m.Run())
}
