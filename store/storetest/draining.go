package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testDrainingHeartbeats checks that a draining node is alive, and so are its workers that have not ended.
func testDrainingHeartbeats(t *testing.T, k *kit) {
	ctx := t.Context()
	require.NoError(t, k.SaveWorkers(ctx, []store.Worker{
		{Key: k.key(1), ID: workerID(1), Generation: 1, State: "busy", Health: "healthy", Active: true, BeatEvery: time.Second},
		{Key: k.key(2), ID: workerID(2), Generation: 1, State: "terminated", Health: "healthy", Active: true, BeatEvery: time.Second},
	}))
	beats := func() (first, second time.Time) {
		list, err := k.ListWorkers(ctx, pool)
		require.NoError(t, err)
		require.Len(t, list, 2)
		return list[0].Beat, list[1].Beat
	}
	require.NoError(t, k.SetNode(ctx, k.inc, store.NodeDraining))
	require.NoError(t, k.Heartbeat(ctx, k.inc, nil))
	first, second := beats()
	require.False(t, first.IsZero(), "it drains and is alive")
	require.Zero(t, second, "it has ended")
	require.NoError(t, k.Heartbeat(ctx, k.inc, map[messages.WorkerKey]json.RawMessage{k.key(1): json.RawMessage(`{"a":1}`)}))
	again, _ := beats()
	require.True(t, again.After(first))
	require.NoError(t, k.SetNode(ctx, k.inc, store.NodeDead))
	require.NoError(t, k.Heartbeat(ctx, k.inc, nil), "of one that has ended nothing is written")
}

// testWorkersSavedAsTheNodeDrains checks that no worker stays active whose row is saved while its node starts to drain.
func testWorkersSavedAsTheNodeDrains(t *testing.T, k *kit) {
	ctx := t.Context()
	for round := range 20 {
		inc := messages.NewIncarnation()
		require.NoError(t, k.Join(ctx, store.Node{Incarnation: inc, Name: "n"}, time.Minute))
		rows := make([]store.Worker, 50)
		for slot := range rows {
			key := messages.WorkerKey{Incarnation: inc, Pool: pool, Slot: messages.Slot(slot)}
			rows[slot] = store.Worker{Key: key, ID: messages.WorkerID(fmt.Sprintf("drains-%d/%d", round, slot)), State: "ready", Active: true}
		}
		saved := make(chan error, 1)
		go func() { saved <- k.SaveWorkers(ctx, rows) }()
		require.NoError(t, k.SetNode(ctx, inc, store.NodeDraining))
		require.NoError(t, <-saved)
		list, err := k.ListWorkers(ctx, pool)
		require.NoError(t, err)
		seen := 0
		for i := range list {
			if list[i].Key.Incarnation == inc {
				seen++
				require.False(t, list[i].Active, "%s", list[i].ID)
			}
		}
		require.Len(t, rows, seen)
	}
}
