package actors

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// 10,000 idle go workers have to fit into 50 MiB with everything else they hold. The limits are the blocks that the allocator has
// (docs/lab/memory.md): a field too many costs each worker up to 128 bytes more.
func TestAnIdleWorkerIsSmall(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(Worker{}), uintptr(896))
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(208))
	require.LessOrEqual(t, unsafe.Sizeof(Cell{}), uintptr(208))
}
