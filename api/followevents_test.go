package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// saying is a backend that says happenings of an execution, and the address at which these are followed.
func saying(t *testing.T) (b *backend, output string) {
	t.Helper()
	b = newBackend(t)
	b.live, b.followed = happenings(), make(chan struct{})
	h := hub.New(hub.Config{ID: "i"})
	t.Cleanup(h.Close)
	base, _ := listeningAs(t, Config{Backend: b, Hub: h})
	return b, base + executionsPath + "/" + submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String() + "/output?follow=1"
}

// Each event of what an execution says has an id, behind which a reader goes on, and none comes twice.
func TestFollowedEventsAreResumed(t *testing.T) {
	t.Parallel()
	b, output := saying(t)
	read := func(most int, last ...string) (all []sent) {
		headers := []string{"Accept", "text/event-stream"}
		if len(last) > 0 {
			headers = append(headers, "Last-Event-ID", last[0])
		}
		response := get(t, output, headers...)
		require.Equal(t, http.StatusOK, response.StatusCode)
		events(t, response, func(e sent) bool {
			all = append(all, e)
			return len(all) == most
		})
		require.NoError(t, response.Body.Close())
		return all
	}
	first := read(4)
	for i, e := range first {
		var l view.Live
		require.NoError(t, json.Unmarshal([]byte(e.data), &l))
		require.Equal(t, b.live[i], l)
		require.Equal(t, b.live[i].Kind, e.kind)
	}
	require.Equal(t, []string{"i-1.1", "i-1.2", "i-1.3", "i-1.4"}, []string{first[0].id, first[1].id, first[2].id, first[3].id})
	require.Equal(t, first[2:], read(2, first[1].id), "it goes on behind the last id")
	for _, unknown := range []string{"other-1.2", "i-1.99", "odd"} {
		again := read(5, unknown)
		require.Equal(t, "reset", again[0].kind)
		require.Empty(t, again[0].id)
		require.Equal(t, first, again[1:], unknown)
	}
}

// Behind the end nothing follows, which ends the returning of a reader that comes back by itself.
func TestFollowedEventsEnd(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.live = []view.Live{{Kind: "status", Status: messages.Running}, {Kind: "status", Status: messages.Completed}}
	h := hub.New(hub.Config{ID: "i"})
	t.Cleanup(h.Close)
	base, _ := listeningAs(t, Config{Backend: b, Hub: h})
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	var body strings.Builder
	follow := func(last string) (status int, ids []string) {
		response := get(t, base+executionsPath+"/"+id+"/output?follow=1", "Accept", "text/event-stream", "Last-Event-ID", last)
		body.Reset()
		response.Body = io.NopCloser(io.TeeReader(response.Body, &body))
		events(t, response, func(e sent) bool {
			ids = append(ids, e.id)
			return false
		})
		return response.StatusCode, ids
	}
	for _, c := range []struct {
		last   string
		status int
		ids    []string
	}{{"", 200, []string{"i-1.1", "i-1.2"}}, {"i-1.1", 200, []string{"i-1.2"}}, {"i-1.2", 204, nil}} {
		status, ids := follow(c.last)
		require.Equal(t, c.status, status, c.last)
		require.Equal(t, c.ids, ids, c.last)
		require.Equal(t, status == 200, strings.HasSuffix(body.String(), "\n\nid: "+id+".over\n\n"), body.String())
	}
	other := hub.New(hub.Config{ID: "j"})
	t.Cleanup(other.Close)
	base, _ = listeningAs(t, Config{Backend: b, Hub: other})
	for last, status := range map[string]int{"i-1.2": 200, id + ".over": 204} {
		answered, _ := follow(last)
		require.Equal(t, status, answered, "another node, %s", last)
	}
}

func TestLostEntriesAreNoticed(t *testing.T) {
	t.Parallel()
	e := hub.Event{N: 9, After: 5, Log: "i-1", Lost: 3, Said: []json.RawMessage{json.RawMessage(`{"kind":"stdout"}`)}}
	require.Equal(t, "event: notice\ndata: {\"kind\":\"notice\",\"at\":\"0001-01-01T00:00:00Z\",\"message\":\"3 entries before this one were not kept\"}\n\n"+
		"id: i-1.9\nevent: stdout\ndata: {\"kind\":\"stdout\"}\n\n", string(saidFrames(&e, true)))
}
