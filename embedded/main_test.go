package embedded_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/embedded"
)

func TestMain(m *testing.M) {
	embedded.RunHelper()
	syscall.Umask(0o022) // nodes use the tests' folders as data folders, and refuse one that others may write to
	os.Exit(m.Run())
}
