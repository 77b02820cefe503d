package workers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
)

func TestEndedQueues(t *testing.T) {
	t.Parallel()
	inc, settings := messages.NewIncarnation(), broker.Settings{Prefix: "p"}
	rows := func(pool string, name messages.Runtime, count int) []store.Worker {
		var list []store.Worker
		for i := range count {
			list = append(list, store.Worker{
				Key: messages.WorkerKey{Incarnation: inc, Pool: pool, Slot: messages.Slot(i)}, Runtime: name,
				ID: messages.NewWorkerID("n", pool, messages.Slot(i)),
			})
		}
		return list
	}
	pooled := "p.worker.n/%s." + inc.String()
	require.Empty(t, EndedQueues(settings, runtime.All(), nil))
	require.Equal(t, []string{fmt.Sprintf(pooled, "go")}, EndedQueues(settings, runtime.All(), rows("go", "go", 128)))
	require.Equal(t, []string{fmt.Sprintf(pooled, "sh")}, EndedQueues(settings, runtime.All(), rows("sh", "shell", 2)))
	require.Equal(t, []string{fmt.Sprintf(pooled, "py"), fmt.Sprintf(pooled, "py/0"), fmt.Sprintf(pooled, "py/1")},
		EndedQueues(settings, runtime.All(), rows("py", "python", 2)))
	require.Len(t, EndedQueues(settings, runtime.All(), rows("py", "python", ownQueueMax+1)), 1)
	require.Len(t, EndedQueues(settings, runtime.All(), append(rows("a", "python", 2), rows("b", "python", 3)...)), 7)
	require.Empty(t, EndedQueues(settings, runtime.All(), []store.Worker{{ID: "odd"}}))
}
