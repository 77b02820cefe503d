package servers

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// Unraced skips, or with TROUPE_TEST_UNSKIPPED fails, a test that starts the library of the remoting more than once, where the race detector watches it set
// gRPC's log: that is done without a lock, and the flags of the Makefile's RACE keep the detector from it.
func Unraced(t testing.TB) {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	watched := false
	for _, s := range info.Settings {
		watched = watched || s.Key == "-race" && s.Value == "true"
	}
	for _, s := range info.Settings {
		if s.Key == "-gcflags" && strings.Contains(s.Value, "grpclog") {
			return
		}
	}
	switch {
	case watched && os.Getenv("TROUPE_TEST_UNSKIPPED") != "":
		t.Fatal("this test runs under the race detector without the flags that it needs: grpclog's must be the last -gcflags (see the Makefile's RACE)")
	case watched:
		t.Skip("under the race detector this test needs the flags of the Makefile's RACE")
	}
}
