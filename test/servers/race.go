package servers

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// Unraced skips a test that starts the remoting's library more than once while the race detector sees how gRPC's log is
// set: that is done without a lock. With TROUPE_TEST_UNSKIPPED the test fails instead. The flags of the Makefile's RACE
// exclude that code from the detector.
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
