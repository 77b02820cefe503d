package workers

import (
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
)

// ownQueueMax is the most workers a pool may have for each to get a queue of its own.
const ownQueueMax = 100

// EndedQueues are the names of the queues that the workers of one incarnation may have had: one for their pool, and where
// the pool was small enough and its workers did not share that one, one each.
func EndedQueues(settings broker.Settings, runtimes runtime.Set, workers []store.Worker) []string {
	count := map[string]int{}
	for i := range workers {
		count[workers[i].Key.Pool]++
	}
	var names []string
	pooled := map[string]bool{}
	for i := range workers {
		w := &workers[i]
		node, pool, _, ok := w.ID.Split()
		if !ok {
			continue
		}
		if !pooled[pool] {
			pooled[pool] = true
			names = append(names, settings.PoolQueueName(node, pool, w.Key.Incarnation))
		}
		spec, known := runtimes.Of(w.Runtime) // another version may have one that this one does not know
		if shared := known && spec.SharedQueue; !shared && count[w.Key.Pool] <= ownQueueMax {
			names = append(names, settings.WorkerQueueName(w.ID, w.Key.Incarnation))
		}
	}
	return names
}
