package workers

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// See actors.TestAnIdleWorkerIsSmall.
func TestASlotIsSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(slot{}), uintptr(112))
	require.LessOrEqual(t, unsafe.Sizeof(member{}), uintptr(160))
}
