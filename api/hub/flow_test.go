package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/live"
)

// program is a flow whose items a test says.
type program struct {
	begun, active atomic.Int64
	items         chan string
	ends          chan error
	before        []string // what each following begins with
}

func newProgram(before ...string) *program {
	return &program{items: make(chan string), ends: make(chan error), before: before}
}

func (p *program) follow(ctx context.Context, each func([]byte) error) error {
	p.begun.Add(1)
	p.active.Add(1)
	defer p.active.Add(-1)
	for _, item := range p.before {
		if err := each([]byte(item)); err != nil {
			return err
		}
	}
	for {
		select {
		case item := <-p.items:
			if err := each([]byte(item)); err != nil {
				return err
			}
		case err := <-p.ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// say says numbers.
func (p *program) say(numbers ...int) {
	for _, n := range numbers {
		p.items <- fmt.Sprint(n)
	}
	synctest.Wait()
}

func (p *program) topic(name string) Topic {
	return Topic{Name: name, Kind: "execution", Follow: p.follow}
}

// listener is a reader of flows with what it has, as a page does.
type listener struct {
	t     *testing.T
	r     *Reader
	had   map[string][]string
	at    map[string]live.Place
	lost  map[string]int64
	wrong map[string]*Problem
	anew  int // times that a flow began at its beginning
	reset int
}

func listen(t *testing.T, h *Hub, topics ...Topic) *listener {
	t.Helper()
	l := &listener{t: t, had: map[string][]string{}, at: map[string]live.Place{}, lost: map[string]int64{}, wrong: map[string]*Problem{}}
	l.join(h, topics...)
	return l
}

func (l *listener) join(h *Hub, topics ...Topic) {
	l.t.Helper()
	for i := range topics {
		topics[i].From = l.at[topics[i].Name]
	}
	var err error
	l.r, err = h.Join(topics, "")
	require.NoError(l.t, err)
}

// take applies one part of each flow. One that does not follow what is there fails the test.
func (l *listener) take() (bytes int) {
	l.t.Helper()
	for _, frame := range l.r.Take() {
		bytes += len(frame)
		kind, data, _ := strings.Cut(string(frame), "\ndata: ")
		if strings.HasSuffix(kind, "event: reset") {
			l.reset++
			continue
		}
		if kind != "event: execution" {
			continue
		}
		var e Event
		require.NoError(l.t, json.Unmarshal([]byte(data), &e))
		if l.wrong[e.Topic] = e.Problem; e.Problem != nil {
			continue
		}
		if e.After == 0 {
			l.had[e.Topic], l.lost[e.Topic] = nil, 0
			l.anew++
		} else {
			require.Equal(l.t, l.at[e.Topic], live.Place{Log: e.Log, N: e.After}, "it goes on where the reader is")
		}
		require.Equal(l.t, e.N, e.After+e.Lost+int64(len(e.Said)))
		l.at[e.Topic] = live.Place{Log: e.Log, N: e.N}
		l.lost[e.Topic] += e.Lost
		for _, item := range e.Said {
			l.had[e.Topic] = append(l.had[e.Topic], string(item))
		}
	}
	return bytes
}

// drain takes as long as the reader is told that there is something.
func (l *listener) drain() *listener {
	l.t.Helper()
	for {
		select {
		case <-l.r.Ready():
			l.take()
		default:
			return l
		}
	}
}

func TestWhatIsSaidComesAtOnceToAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p := New(Config{ID: "i"}), newProgram("0")
		one := listen(t, h, p.topic("a"))
		synctest.Wait()
		require.Equal(t, []string{"0"}, one.drain().had["a"])
		p.say(1, 2)
		require.Equal(t, []string{"0", "1", "2"}, one.drain().had["a"])
		two := listen(t, h, p.topic("a"))
		require.Equal(t, []string{"0", "1", "2"}, two.drain().had["a"], "one that comes later has all")
		p.say(3)
		require.Equal(t, one.drain().had, two.drain().had)
		require.Equal(t, int64(1), p.begun.Load(), "it is followed once for both")
		require.Equal(t, live.Place{Log: "i-1", N: 4}, one.at["a"])
		require.Contains(t, one.r.Ages(), "a")
		p.ends <- nil
		synctest.Wait()
		late := listen(t, h, p.topic("a"))
		require.Len(t, late.drain().had["a"], 4, "what has ended stays while it has readers")
		for _, l := range []*listener{one, two, late} {
			require.Zero(t, l.take())
			l.r.Leave()
		}
	})
}

// A reader that comes back goes on where it was. Without readers nothing is followed after a while, and nothing is kept.
func TestAReaderOfAFlowComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p, q := New(Config{ID: "i"}), newProgram("0"), newProgram("7")
		l := listen(t, h, p.topic("a"))
		synctest.Wait()
		l.drain().r.Leave()
		p.say(1)
		l.join(h, p.topic("a"), q.topic("b"))
		synctest.Wait()
		require.Equal(t, []string{"0", "1"}, l.drain().had["a"])
		require.Equal(t, []string{"7"}, l.had["b"])
		require.Equal(t, 2, l.anew, "once for each")
		l.r.Leave()
		time.Sleep(keptTime + time.Second)
		synctest.Wait()
		require.Zero(t, p.active.Load(), "nobody is there")
		require.Equal(t, State{}, h.State())
		require.Zero(t, h.logBytes)
		l.join(h, p.topic("a"))
		synctest.Wait()
		require.Equal(t, []string{"0"}, l.drain().had["a"], "its place is no longer known, so it has all anew")
		require.Equal(t, 3, l.anew)
		l.r.Leave()
		h.Close()
		synctest.Wait()
		require.Zero(t, p.active.Load())
	})
}

func TestAPlaceThatIsNotKnownBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]live.Place{
		"another boot": {Log: "other-1", N: 1}, "another log": {Log: "i-9", N: 1}, "a number that was never said": {Log: "i-1", N: 99},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, p := New(Config{ID: "i"}), newProgram("0", "1")
			first := listen(t, h, p.topic("a"))
			synctest.Wait()
			first.drain()
			l := &listener{t: t, had: map[string][]string{"a": {"old"}}, at: map[string]live.Place{"a": at}, lost: map[string]int64{}, wrong: map[string]*Problem{}}
			l.join(h, p.topic("a"))
			require.Equal(t, []string{"0", "1"}, l.drain().had["a"], name)
			first.r.Leave()
			l.r.Leave()
			h.Close()
		})
	}
}

// Much output is given in parts, as the reader takes it. What was not taken in time is counted, and nothing else is lost.
func TestAFlowIsTakenInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p, q := New(Config{ID: "i", Buffer: 2000}), newProgram(), newProgram()
		text := func(n int) string { return fmt.Sprintf("%q", fmt.Sprint(n)+strings.Repeat("x", 96)) }
		for i := range 100 {
			p.before, q.before = append(p.before, text(i)), append(q.before, text(i))
		}
		q.before = append(q.before, `"`+strings.Repeat("y", 10_000)+`"`)
		l := listen(t, h, p.topic("a"), q.topic("b"))
		synctest.Wait()
		takes, most := 0, 0
		for len(l.had["a"]) < 100 || len(l.had["b"]) < 101 {
			<-l.r.Ready()
			most = max(most, l.take())
			takes++
		}
		require.Equal(t, p.before, l.had["a"])
		require.Equal(t, q.before, l.had["b"])
		require.Greater(t, takes, 9)
		require.Less(t, most, 14_000, "a part of each, or one large item")
		require.Zero(t, h.State().Resets)
		require.Equal(t, 2, l.anew)
		l.r.Leave()
		h.Close()
	})
}

func TestALogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p := New(Config{ID: "i"}), newProgram()
		large := `"` + strings.Repeat("x", logMax/4) + `"`
		for range 9 {
			p.before = append(p.before, large)
		}
		l := listen(t, h, p.topic("a"))
		synctest.Wait()
		require.LessOrEqual(t, h.logBytes, logMax)
		l.drain()
		require.Len(t, l.had["a"], 3)
		require.Equal(t, int64(6), l.lost["a"])
		p.items <- `"` + strings.Repeat("x", logMax) + `"`
		p.say(5)
		l.drain()
		require.Equal(t, int64(7), l.lost["a"], "one that is larger than the log")
		require.Equal(t, "5", l.had["a"][3])
		h.mu.Lock()
		h.logBytes += logsMax // others have all
		h.mu.Unlock()
		p.say(6)
		require.Equal(t, int64(8), l.drain().lost["a"], "no log has room")
		h.mu.Lock()
		h.logBytes -= logsMax
		require.Zero(t, h.logBytes)
		h.mu.Unlock()
		l.r.Leave()
		h.Close()
	})
}

// What cannot be followed says why, once, and is tried again after longer and longer rests; then it begins with a log of its own.
func TestAFlowIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p := New(Config{ID: "i"}), newProgram("0")
		l := listen(t, h, p.topic("a"), Topic{Name: "b", Kind: "execution", Follow: func(context.Context, func([]byte) error) error { panic("planted") }})
		synctest.Wait()
		l.drain()
		require.Equal(t, []string{"0"}, l.had["a"])
		require.Contains(t, l.wrong["b"].Message, "tried again")
		p.say(1)
		p.ends <- errors.New("secret of the inside")
		synctest.Wait()
		l.drain()
		require.NotNil(t, l.wrong["a"])
		require.NotContains(t, l.wrong["a"].Message, "secret")
		require.Equal(t, []string{"0", "1"}, l.had["a"], "what was said stays")
		require.NotContains(t, l.r.Ages(), "a")
		late := listen(t, h, p.topic("a"))
		late.drain()
		require.NotNil(t, late.wrong["a"], "a later reader hears of it, behind what was said")
		require.Equal(t, []string{"0", "1"}, late.had["a"])
		tick()
		require.Equal(t, int64(2), p.begun.Load())
		l.drain()
		require.Equal(t, []string{"0"}, l.had["a"], "anew")
		require.Equal(t, live.Place{Log: "i-2", N: 1}, l.at["a"])
		require.Nil(t, l.wrong["a"])
		l.r.Leave()
		late.r.Leave()
		h.Close()
	})
}

// A reader whose buffer is full of other topics is told to forget everything, so that its flows begin anew, too.
func TestAResetIsOneOfFlowsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, p := New(Config{ID: "i", Buffer: 2000}), &answer{}, newProgram("0")
		a.set("x=")
		l := listen(t, h, a.topic("list"), p.topic("a"))
		synctest.Wait()
		l.drain()
		p.say(1)
		for i := range 4 {
			a.set("x=" + strings.Repeat("v", 1000+i))
			tick()
		}
		l.drain()
		require.Positive(t, l.reset)
		require.Equal(t, 2, l.anew)
		require.Equal(t, []string{"0", "1"}, l.had["a"])
		l.r.Leave()
		h.Close()
	})
}

// Whatever is said, and whoever comes, goes and comes back, a reader has each item once and in its order.
func TestListenersConverge(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(2, uint64(seed)))
			h, p := New(Config{ID: "i", Buffer: 60}), newProgram("0")
			listeners, here := []*listener{listen(t, h, p.topic("a")), listen(t, h, p.topic("a")), listen(t, h, p.topic("a"))}, []bool{true, true, true}
			said := []string{"0"}
			synctest.Wait()
			for range 80 {
				i := random.IntN(len(listeners))
				switch {
				case random.IntN(2) == 0:
					p.say(len(said))
					said = append(said, fmt.Sprint(len(said)))
				case random.IntN(8) == 0:
					p.ends <- errors.New("lost")
					time.Sleep(2 * restMax)
					synctest.Wait()
					said = said[:1]
				case !here[i]:
					listeners[i].join(h, p.topic("a"))
					here[i] = true
				case random.IntN(3) == 0 && i > 0: // one stays, so that what was said does
					listeners[i].r.Leave()
					here[i] = false
				default:
					listeners[i].take()
				}
			}
			for i, l := range listeners {
				if !here[i] {
					l.join(h, p.topic("a"))
				}
				require.Equal(t, said, l.drain().had["a"], "seed %d", seed)
				l.r.Leave()
			}
			h.Close()
		})
	}
}
