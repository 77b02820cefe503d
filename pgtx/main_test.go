package pgtx_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/embedded"
)

func TestMain(m *testing.M) {
	embedded.RunHelper()
	syscall.Umask(0o022) // folders of tests are data folders of nodes, which refuse what others may write to
	os.Exit(m.Run())
}
