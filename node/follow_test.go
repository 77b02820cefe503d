package node_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/test/servers"
)

// watched is what a follower has seen.
type watched struct {
	mu   sync.Mutex
	list []view.Live
	done chan error
}

// watch follows an execution from the node.
func (k *kit) watch(id messages.ExecutionID) *watched {
	w := &watched{done: make(chan error, 1)}
	go func() {
		w.done <- k.Follow(k.t.Context(), id, func(l view.Live) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.list = append(w.list, l)
			return nil
		})
	}()
	return w
}

// text is what was seen, a word for each event.
func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	for _, l := range w.list {
		part := l.Kind + ":"
		switch l.Kind {
		case "status":
			part += l.Status.String()
		case "stdout", "stderr":
			part += string(l.Data)
		case "chunk":
			part += string(l.Chunk)
		default:
			part += l.Message
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "|")
}

func (w *watched) ends(t *testing.T) string {
	t.Helper()
	select {
	case err := <-w.done:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the follower never ended", w.text())
	}
	return w.text()
}

// What runs on one node is followed on the other, from before its start to its end, each event once and in order.
func TestARunIsFollowedFromAnotherNode(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	hold := []messages.ExecutionID{b.submit("b.work", nil), b.submit("b.work", nil)}
	for range hold { // so that it waits
		b.gate.next(t)
	}
	id := b.submit("b.talk", nil)
	early := a.watch(id)
	a.until("it is followed while it waits", func() bool { return strings.HasPrefix(early.text(), "status:") })
	b.gate.open <- struct{}{}
	require.Equal(t, id, b.gate.next(t).ID)
	const before = `progress:half|log:before|chunk:{"attempt":1}`
	a.until("the first events are seen", func() bool { return strings.HasSuffix(early.text(), before) })
	late := a.watch(id)
	a.until("from the first event on", func() bool { return strings.HasSuffix(late.text(), before) })
	for range 2 {
		b.gate.open <- struct{}{}
	}
	said := time.Now()
	a.until("what comes next is seen", func() bool { return strings.Contains(late.text(), "log:after") })
	t.Logf("seen after at most %s", time.Since(said).Round(time.Millisecond))
	require.Regexp(t, `^status:(requested|scheduled)\|`+regexpQuote(before)+`\|log:after\|status:completed$`, early.ends(t))
	require.Equal(t, "status:running|"+before+"|log:after|status:completed", late.ends(t))
	require.Equal(t, before+"|log:after|status:completed", a.watch(id).ends(t), "all that it said is stored")
}

func regexpQuote(s string) string {
	return strings.NewReplacer("|", `\|`, "{", `\{`, "}", `\}`).Replace(s)
}

// What a process writes on one node is seen on the other while it writes, and all of it in the end.
func TestOutputIsSeenFromAnotherNode(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	id := b.submit("b.say", nil)
	w := a.watch(id)
	a.until("a line is seen while it runs", func() bool { return strings.Contains(w.text(), "stdout:line 1\n") })
	a.until("so far is shown", func() bool {
		out, err := a.Output(t.Context(), id)
		require.NoError(t, err)
		return strings.HasPrefix(string(out.Stdout), "line 1\n") && strings.HasPrefix(string(out.Stderr), "err 1\n")
	})
	require.Equal(t, messages.Running, a.get(id).Status)
	require.Contains(t, w.ends(t), "|status:completed")
	var out, errs string
	for _, l := range w.list {
		switch l.Kind {
		case "stdout":
			out += string(l.Data)
		case "stderr":
			errs += string(l.Data)
		}
	}
	require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\n", out)
	require.Equal(t, "err 1\nerr 2\nerr 3\nerr 4\nerr 5\n", errs)
	later := a.watch(id)
	require.Contains(t, later.ends(t), "|status:completed")
	require.Equal(t, streams(w.list), streams(later.list), "what is stored is what was seen, in its order")
}

// streams are the bytes that were seen, those of one stream that come behind each other in one piece.
func streams(list []view.Live) (all []string) {
	last := ""
	for _, l := range list {
		switch {
		case l.Kind != "stdout" && l.Kind != "stderr":
		case l.Kind == last:
			all[len(all)-1] += string(l.Data)
		default:
			all, last = append(all, l.Kind+":"+string(l.Data)), l.Kind
		}
	}
	return all
}

// A follower whose node loses the one that runs it is told, sees what comes once that is back, and its end.
func TestAFollowerIsToldOfAPartition(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	id := b.submit("b.talk", nil)
	require.Equal(t, id, b.gate.next(t).ID)
	w := a.watch(id)
	a.until("it is followed", func() bool { return strings.Contains(w.text(), "log:before") })
	a.wire.Cut()
	b.wire.Cut()
	a.until("the follower is told", func() bool { return strings.Contains(w.text(), "notice:what it says on node b is not seen for now") })
	_, err := a.Output(t.Context(), id)
	require.Equal(t, messages.CodeNodeUnreachable, refused(t, err).Code)
	a.wire.Heal()
	b.wire.Heal()
	a.until("the follower is told again", func() bool { return strings.Contains(w.text(), "notice:node b answers again") })
	close(b.gate.open)
	text := w.ends(t)
	require.Contains(t, text, "log:after|")
	require.Equal(t, 1, strings.Count(text, "log:before"))
	require.Equal(t, 1, strings.Count(text, "is not seen for now"))
	require.True(t, strings.HasSuffix(text, "|status:completed"), text)
}

// A node that takes its time to answer is followed without a word about that.
func TestASlowNodeIsFollowed(t *testing.T) {
	t.Parallel()
	a, b := newCompany(t).pair(t)
	id := b.submit("b.talk", nil)
	require.Equal(t, id, b.gate.next(t).ID)
	for _, n := range []*steerable{a, b} {
		n.wire.Delay(600 * time.Millisecond)
	}
	w := a.watch(id)
	a.until("it is followed", func() bool { return strings.Contains(w.text(), "log:before") })
	close(b.gate.open)
	require.Equal(t, `status:running|progress:half|log:before|chunk:{"attempt":1}|log:after|status:completed`, w.ends(t))
}

// A node dies while its runs are followed from another: the followers are told, and see what became of them: the one that may
// be repeated goes on elsewhere, the other ends.
func TestAFollowedNodeDies(t *testing.T) {
	t.Parallel()
	servers.Unraced(t)
	url, g := database(t), newGate()
	pack := packOf(t, "t", "", files{
		"actions/again.yaml": "name: again\nruntime: go\nentrypoint: t.again\nidempotent: true\n",
		"actions/once.yaml":  "name: once\nruntime: shell\ncommand: [sh, -c, 'echo hello; exec sleep 600']\n",
	})
	other := startSecond(t, url, pack)
	ids := other.says("submitted")
	again, once := parse(t, ids[0]), parse(t, ids[1])
	other.says("runs")
	k := lab(t, func(c *node.Config) {
		paired(c, url)
		c.Peers.Listen = "127.0.0.1:0"
		handle(map[string]messages.Handler{"again": func(ctx context.Context, task *messages.Task) (any, error) {
			if err := task.Chunk(object{"attempt": task.Attempt}); err != nil {
				return nil, err
			}
			return g.run(ctx, task)
		}})(c)
	}, pack)
	k.becomes(once, messages.Running)
	k.until("the other node is reached", func() bool {
		nodes, err := k.Backend.Nodes(t.Context())
		require.NoError(t, err)
		return slices.ContainsFunc(nodes, func(n view.Node) bool { return n.Name == "second" && n.Reach == "reached" })
	})
	both := []*watched{k.watch(again), k.watch(once)}
	k.until("its output is seen", func() bool { return strings.Contains(both[1].text(), "stdout:hello\n") })
	steady := time.Now().Add(pairLease + pairLease/4)
	k.until("this node may declare others dead", func() bool { return time.Now().After(steady) })
	other.signal(syscall.SIGKILL)
	for _, w := range both {
		k.until("the follower is told", func() bool {
			return strings.Contains(w.text(), "notice:what it says on node second is not seen for now")
		})
	}
	k.until("the crash is no partition", func() bool {
		return strings.Contains(k.log.String(), "reach=lost") || strings.Contains(k.log.String(), "node is down: node=second")
	})
	require.NotContains(t, k.log.String(), "reach=partitioned")
	require.Equal(t, again, g.next(t).ID)
	close(g.open)
	require.Regexp(t, `^status:running\|notice:what [^|]*\|notice:its run there is over without an outcome, and it is tried again\|chunk:\{"attempt":2\}\|`, both[0].ends(t)+"|")
	require.True(t, strings.HasSuffix(both[0].text(), "|status:completed"), both[0].text())
	require.Regexp(t, `^status:running\|stdout:hello\n\|notice:what [^|]*\|notice:what it wrote is lost[^|]*\|status:abandoned$`, both[1].ends(t))
}
