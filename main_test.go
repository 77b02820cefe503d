package troupe_test

import (
	"os"
	"testing"

	"github.com/troupe-run/troupe"
)

func TestMain(m *testing.M) {
	troupe.RunHelper()
	os.Exit(m.Run())
}
