package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is a topic whose rows a test sets.
type answer struct {
	mu    sync.Mutex
	rows  []string
	err   error
	reads atomic.Int64
	took  time.Duration
}

func (a *answer) set(rows ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rows, a.err = rows, nil
}

func (a *answer) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *answer) read(ctx context.Context) ([]byte, error) {
	a.reads.Add(1)
	if a.took > 0 {
		select {
		case <-time.After(a.took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	var rows []string
	for _, row := range a.rows {
		id, value, _ := strings.Cut(row, "=")
		rows = append(rows, fmt.Sprintf(`{"id":%q,"value":%q}`, id, value))
	}
	return []byte(`{"rows":[` + strings.Join(rows, ",") + `],"more":"end"}`), nil
}

func (a *answer) topic(name string) Topic {
	return Topic{Name: name, Kind: "list", Read: OfText(live.Lists{"rows": {"id"}}, a.read)}
}

// follower is a reader with what it holds, as a page does.
type follower struct {
	t      *testing.T
	r      *Reader
	states map[string][]live.Entry
	at     map[string]int64
	last   string
	resets []string
	wrong  map[string]*Problem
}

func follow(t *testing.T, h *Hub, topics ...Topic) *follower {
	t.Helper()
	f := &follower{t: t, states: map[string][]live.Entry{}, at: map[string]int64{}, wrong: map[string]*Problem{}}
	f.join(h, topics...)
	return f
}

func (f *follower) join(h *Hub, topics ...Topic) {
	f.t.Helper()
	var err error
	f.r, err = h.Join(topics, f.last)
	require.NoError(f.t, err)
}

// take applies what has come. A difference that does not follow the state before fails the test.
func (f *follower) take() (events int) {
	f.t.Helper()
	for block := range bytes.SplitSeq(bytes.Join(f.r.Take(), nil), []byte("\n\n")) {
		var kind, data string
		for line := range strings.Lines(string(block)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				f.last = value
			case "event":
				kind = value
			case "data":
				data = value
			}
		}
		switch kind {
		case "":
			continue
		case "reset":
			var reset struct{ Why string }
			require.NoError(f.t, json.Unmarshal([]byte(data), &reset))
			f.resets = append(f.resets, reset.Why)
			clear(f.states)
			clear(f.at)
			continue
		}
		events++
		var e Event
		require.NoError(f.t, json.Unmarshal([]byte(data), &e))
		if f.wrong[e.Topic] = e.Problem; e.Problem != nil {
			continue
		}
		from := f.states[e.Topic]
		if e.After == 0 {
			from = nil
		} else {
			require.Equal(f.t, f.at[e.Topic], e.After, "a difference follows the state that the reader has")
		}
		to, err := e.Apply(from)
		require.NoError(f.t, err)
		f.states[e.Topic], f.at[e.Topic] = to, e.N
	}
	return events
}

// rows are what the follower shows of a topic.
func (f *follower) rows(topic string) []string {
	f.take()
	var rows []string
	for _, e := range f.states[topic] {
		var row struct{ ID, Value string }
		if strings.HasPrefix(e.Key, "rows/") {
			require.NoError(f.t, json.Unmarshal(e.Value, &row))
			rows = append(rows, row.ID+"="+row.Value)
		}
	}
	return rows
}

func tick() {
	time.Sleep(Every)
	synctest.Wait()
}

func TestASnapshotThenDifferencesOnceATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		require.False(t, h.Watching())
		a.set("x=1", "w=1")
		one := follow(t, h, a.topic("list"))
		synctest.Wait()
		require.True(t, h.Watching())
		require.Equal(t, []string{"x=1", "w=1"}, one.rows("list"))
		two := follow(t, h, a.topic("list"))
		require.Equal(t, []string{"x=1", "w=1"}, two.rows("list"), "at once, without reading again")
		require.Equal(t, int64(1), a.reads.Load())
		a.set("y=1", "x=2")
		tick()
		require.Equal(t, []string{"y=1", "x=2"}, one.rows("list"))
		require.Equal(t, []string{"y=1", "x=2"}, two.rows("list"))
		require.Equal(t, int64(2), a.reads.Load(), "one reading for all")
		tick()
		require.Zero(t, one.take(), "what did not change is not told")
		require.Equal(t, State{Readers: 2, Topics: 1}, h.State())
		one.r.Leave()
		one.r.Leave()
		two.r.Leave()
		require.False(t, h.Watching())
		reads := a.reads.Load()
		time.Sleep(keptTime / 2)
		synctest.Wait()
		require.Equal(t, reads, a.reads.Load(), "nothing is read for nobody")
		time.Sleep(keptTime)
		synctest.Wait()
		require.Equal(t, State{}, h.State())
		require.Zero(t, h.states)
	})
}

func TestAReaderComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		a.set("x=1")
		stays, leaves := follow(t, h, a.topic("list")), follow(t, h, a.topic("list"))
		synctest.Wait()
		leaves.take()
		stays.take()
		require.NotEmpty(t, leaves.last)
		leaves.r.Leave()
		a.set("y=1", "x=1")
		tick()
		stays.take()
		a.set("y=2", "x=1")
		tick()
		leaves.join(h, a.topic("list"))
		require.Equal(t, []string{"y=2", "x=1"}, leaves.rows("list"), "what it missed, in the order in which it came")
		require.Empty(t, leaves.resets)
		leaves.r.Leave()
		stays.rows("list")
		stays.r.Leave()
		a.set("z=1")
		time.Sleep(keptTime / 2)
		leaves.join(h, a.topic("list"))
		synctest.Wait()
		require.Equal(t, []string{"z=1"}, leaves.rows("list"), "nobody was there meanwhile")
		require.Empty(t, leaves.resets)
		leaves.r.Leave()
		time.Sleep(2 * keptTime)
		leaves.join(h, a.topic("list"))
		synctest.Wait()
		require.Equal(t, []string{"z=1"}, leaves.rows("list"))
		require.Len(t, leaves.resets, 1, "it was forgotten")
		leaves.r.Leave()
	})
}

func TestAnIdThatIsNotKnownBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{
		"another boot": "other.1", "no number": "i.x", "a number that was never given": "i.99", "nothing of it": "lost", "below": "i.-1", "huge": "i.99999999999999999999",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, a := New(Config{ID: "i"}), &answer{}
				a.set("x=1")
				first := follow(t, h, a.topic("list"))
				synctest.Wait()
				f := &follower{t: t, last: id, states: map[string][]live.Entry{}, at: map[string]int64{}, wrong: map[string]*Problem{}}
				f.join(h, a.topic("list"))
				require.Equal(t, []string{"x=1"}, f.rows("list"))
				require.Len(t, f.resets, 1)
				f.r.Leave()
				first.r.Leave()
			})
		})
	}
}

// An id of a stream of other topics never makes a reader miss the snapshot of one that it did not have.
func TestATopicThatIsNewerThanTheIdIsGivenWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i"}), &answer{}, &answer{}
		a.set("x=1")
		b.set("y=1")
		f := follow(t, h, a.topic("a"))
		synctest.Wait()
		f.take()
		f.r.Leave()
		f.join(h, a.topic("a"), b.topic("b"))
		synctest.Wait()
		require.Equal(t, []string{"y=1"}, f.rows("b"))
		require.Equal(t, []string{"x=1"}, f.rows("a"))
		f.r.Leave()
	})
}

// A reader that does not take what waits for it has a bounded buffer. It is told, and given everything anew.
func TestASlowReaderBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		a.set("x=")
		slow := follow(t, h, a.topic("list"))
		synctest.Wait()
		slow.take()
		for i := range 40 {
			a.set("x=" + strings.Repeat("v", 10_000+i))
			tick()
			h.mu.Lock()
			require.LessOrEqual(t, slow.r.waiting, bufferMax)
			h.mu.Unlock()
		}
		slow.take()
		require.NotEmpty(t, slow.resets)
		a.set("x=last")
		tick()
		require.Equal(t, []string{"x=last"}, slow.rows("list"))
		require.Positive(t, h.State().Resets)
		slow.r.Leave()
	})
}

// A topic that cannot be read says why, once, and keeps what it was. The others go on.
func TestAProblemIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i"}), &answer{}, &answer{}
		a.set("x=1")
		b.set("y=1")
		f := follow(t, h, a.topic("a"), b.topic("b"))
		synctest.Wait()
		f.take()
		require.Len(t, f.r.Ages(), 2)
		a.fail(messages.Problemf(messages.CodeStoreUnavailable, "the store is away"))
		tick()
		require.Equal(t, 1, f.take())
		require.Equal(t, &Problem{messages.CodeStoreUnavailable, "the store is away"}, f.wrong["a"])
		late := follow(t, h, a.topic("a"))
		late.take()
		require.NotNil(t, late.wrong["a"], "a later reader hears of it, too")
		require.Equal(t, []string{"x=1"}, late.rows("a"))
		b.set("y=2")
		tick()
		require.Equal(t, 1, f.take())
		require.Equal(t, []string{"y=2"}, f.rows("b"))
		require.NotContains(t, f.r.Ages(), "a")
		a.set("x=1")
		tick()
		require.Equal(t, 1, f.take(), "it is read again, with the same answer")
		require.Nil(t, f.wrong["a"])
		a.fail(errors.New("secret of the inside"))
		tick()
		f.take()
		require.NotContains(t, f.wrong["a"].Message, "secret")
		f.r.Leave()
		late.r.Leave()
	})
}

// Whoever comes when the last reader has left, and whoever has to forget all, hears of a problem that goes on.
func TestAProblemThatGoesOnIsToldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i", Buffer: 300}), &answer{}, &answer{}
		a.set("x=1")
		b.set("y=0")
		f := follow(t, h, a.topic("a"))
		synctest.Wait()
		f.take()
		a.fail(messages.Problemf(messages.CodeStoreUnavailable, "the store is away"))
		tick()
		f.take()
		require.NotNil(t, f.wrong["a"])
		f.r.Leave()

		again := follow(t, h, a.topic("a"), b.topic("b"))
		tick()
		again.take()
		require.NotNil(t, again.wrong["a"], "it came when nobody read")
		again.wrong = map[string]*Problem{}
		for n := range 5 {
			b.set(fmt.Sprintf("y=%0100d", n))
			tick()
		}
		again.take()
		require.Equal(t, int64(1), h.State().Resets)
		require.NotNil(t, again.wrong["a"], "it was slow")
		again.r.Leave()
	})
}

func TestWhatIsTooLargeIsAProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		a.set("x=" + strings.Repeat("v", StateMax))
		f := follow(t, h, a.topic("list"), Topic{Name: "panics", Kind: "list", Read: func(context.Context) ([]live.Entry, error) { panic("planted") }})
		synctest.Wait()
		f.take()
		require.Contains(t, f.wrong["list"].Message, "follow less")
		require.NotNil(t, f.wrong["panics"], "a panic is the topic's alone")
		f.r.Leave()
	})
}

// Where the hub hears of all changes, a topic that none of them touches rests. A change that touches it, or one that may be lost, has it
// read.
func TestATopicThatNothingTouchesRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i", Whole: true}), &answer{}
		a.set("x=1")
		topic := a.topic("list")
		topic.Touched = func(c *Change, shown func(string) bool) bool { return shown("rows/" + c.Pool) }
		f := follow(t, h, topic)
		synctest.Wait()
		reads := func() int64 { return a.reads.Swap(0) }
		require.Equal(t, int64(1), reads())
		h.Note([]Change{{Pool: "other"}})
		tick()
		require.Zero(t, reads())
		h.Note([]Change{{Pool: "x"}})
		tick()
		require.Equal(t, int64(1), reads())
		h.Note(make([]Change, changesMax+1))
		tick()
		require.Equal(t, int64(1), reads(), "some were dropped")
		require.Equal(t, int64(3), h.State().Dropped)
		time.Sleep(quietMax)
		synctest.Wait()
		require.Equal(t, int64(1), reads(), "now and then it is read all the same")
		f.r.Leave()
		h.Note([]Change{{Pool: "x"}})
		require.Equal(t, int64(3), h.State().Dropped)
	})
}

// What nothing touches, and takes long to read, is read again less often than what is read at once.
func TestASlowQuietTopicRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i", Whole: true}), &answer{}, &answer{took: 15 * time.Millisecond}
		quick, slow := a.topic("quick"), b.topic("slow")
		none := func(*Change, func(string) bool) bool { return false }
		quick.Touched, slow.Touched = none, none
		f := follow(t, h, quick, slow)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		require.Equal(t, []int64{11, 4}, []int64{a.reads.Load(), b.reads.Load()}, "each 3 s, and each 7.5 s at a tick")
		f.r.Leave()
	})
}

// A topic can have a tick of its own, and an answer that is what it was tells nobody anything.
func TestATopicHasATickOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		a.set("x=1")
		topic := a.topic("list")
		topic.Tick = 3 * Every
		f := follow(t, h, topic)
		synctest.Wait()
		require.Equal(t, 1, f.take())
		time.Sleep(7 * Every)
		synctest.Wait()
		require.Equal(t, int64(3), a.reads.Load(), "at 0, 3 and 6 s")
		require.Zero(t, f.take())
		a.set("x=2")
		time.Sleep(3 * Every)
		synctest.Wait()
		require.Equal(t, 1, f.take())
		require.Equal(t, []string{"x=2"}, f.rows("list"))
		f.r.Leave()
	})
}

func TestTopicsAreReadAtTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ now, rest, want time.Duration }{
		{0, Every, Every},
		{20 * time.Millisecond, Every - 20*time.Millisecond, 980 * time.Millisecond},
		{300 * time.Millisecond, Every, 700 * time.Millisecond},  // the first reading is when somebody comes
		{700 * time.Millisecond, Every, 1300 * time.Millisecond}, // never sooner than half a tick
		{200 * time.Millisecond, 4 * time.Second, 3800 * time.Millisecond},
		{400 * time.Millisecond, 0, 600 * time.Millisecond},
	} {
		require.Equal(t, c.want, toTick(c.now, c.rest), "%v, %v", c.now, c.rest)
	}
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i"}), &answer{}, &answer{}
		first := follow(t, h, a.topic("first"))
		time.Sleep(300 * time.Millisecond)
		second := follow(t, h, b.topic("second"))
		synctest.Wait()
		require.Equal(t, int64(1), b.reads.Load(), "at once")
		time.Sleep(700*time.Millisecond - 1)
		synctest.Wait()
		require.Equal(t, []int64{1, 1}, []int64{a.reads.Load(), b.reads.Load()})
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []int64{2, 2}, []int64{a.reads.Load(), b.reads.Load()}, "at the same tick")
		first.r.Leave()
		second.r.Leave()
	})
}

// What takes long to read is read less often, and what does not end is ended.
func TestASlowTopicRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := New(Config{ID: "i"}), &answer{took: 40 * time.Millisecond}, &answer{took: time.Hour}
		f := follow(t, h, a.topic("slow"), b.topic("hangs"))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(3), a.reads.Load(), "every fourth tick")
		f.take()
		require.Equal(t, messages.CodeUnavailable, f.wrong["hangs"].Code)
		f.r.Leave()
	})
}

// A reader who comes while the last reading for one who went is still under way waits for its end: two at once would write in the same memory.
func TestATopicIsReadOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, under, most := New(Config{ID: "i"}), 0, 0
		topic := Topic{Name: "list", Kind: "list", Read: func(context.Context) ([]live.Entry, error) { // it does not hear of the end of ctx at once
			under++
			most = max(most, under)
			time.Sleep(Every / 2)
			under--
			return []live.Entry{{Key: "x", Value: []byte("1")}}, nil
		}}
		first := follow(t, h, topic)
		time.Sleep(2 * Every) // it has been read, so that the topic stays for a while
		synctest.Wait()
		for range 5 {
			first.r.Leave()
			first = follow(t, h, topic)
			time.Sleep(Every / 8)
		}
		time.Sleep(3 * Every)
		synctest.Wait()
		require.Equal(t, 1, most)
		require.Positive(t, first.take())
		first.r.Leave()
	})
}

// An event is what the encoder makes of it, with its values as they are.
func TestAnEventIsWrittenAsTheEncoderWritesIt(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Event{
		"nothing set": {Topic: "list", N: 2, After: 1, Change: live.Change{Gone: []string{"a"}, Keys: []string{"b"}}},
		"set":         {Topic: `list:label=x"<y`, N: 1, Change: live.Change{Set: []live.Pair{{Key: `rows/"<a`, Value: []byte(`{"a":[1,"}"]}`)}, {Key: "more", Value: []byte("2")}}}},
	} {
		text, ended := bytes.CutSuffix(frame("list", &e), []byte("\n\n"))
		require.True(t, ended, name)
		text, begins := bytes.CutPrefix(text, []byte("event: list\ndata: "))
		require.True(t, begins, name)
		want, err := json.Marshal(&e)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(text), name)
	}
}

func TestTopicsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a := New(Config{ID: "i"}), &answer{}
		var readers []*follower
		for i := range TopicsMax {
			readers = append(readers, follow(t, h, a.topic(fmt.Sprint(i))))
		}
		synctest.Wait()
		_, err := h.Join([]Topic{a.topic("0"), a.topic("more")}, "")
		require.ErrorIs(t, err, ErrTopics)
		require.Equal(t, State{Readers: TopicsMax, Topics: TopicsMax}, h.State())
		said := func(i int) Topic {
			return Topic{Name: fmt.Sprint("said", i), Follow: func(ctx context.Context, _ func([]byte) error) error { <-ctx.Done(); return ctx.Err() }}
		}
		var flows []Topic
		for i := range FlowsMax {
			flows = append(flows, said(i))
		}
		all, err := h.Join(flows, "")
		require.NoError(t, err, "flows take no places of topics that are read")
		_, err = h.Join([]Topic{said(FlowsMax)}, "")
		require.ErrorIs(t, err, ErrTopics)
		all.Leave()
		readers[7].r.Leave()
		one := follow(t, h, a.topic("more"))
		require.Equal(t, TopicsMax, h.State().Topics, "one that nobody reads gave its place")
		one.r.Leave()
		for _, f := range readers {
			f.r.Leave()
		}
	})
}

// Whatever changes, and whoever comes, goes, is slow or comes back, a reader that has caught up shows what the node has.
func TestReadersConverge(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(seed)))
			h, answers := New(Config{ID: "i", Buffer: 2000}), []*answer{{}, {}, {}}
			topics := make([]Topic, len(answers))
			for i := range answers {
				topics[i] = answers[i].topic(fmt.Sprint(i))
			}
			followers := []*follower{follow(t, h, topics...), follow(t, h, topics...), follow(t, h, topics[0], topics[2])}
			here := []bool{true, true, true}
			for range 60 {
				a := answers[random.IntN(len(answers))]
				var rows []string
				for _, n := range random.Perm(6)[:random.IntN(6)] {
					rows = append(rows, fmt.Sprintf("%d=%s", n, strings.Repeat("v", 1+random.IntN(3)*200)))
				}
				a.set(rows...)
				i := random.IntN(len(followers))
				switch f := followers[i]; {
				case here[i] && random.IntN(3) == 0:
					f.r.Leave()
					here[i] = false
				case !here[i]:
					f.join(h, topicsOf(f, topics)...)
					here[i] = true
				case random.IntN(2) == 0:
					f.take()
				}
				time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			}
			for range 3 {
				for i, f := range followers {
					if !here[i] {
						f.join(h, topicsOf(f, topics)...)
						here[i] = true
					}
					f.take()
				}
				tick()
			}
			for _, f := range followers {
				for _, topic := range topicsOf(f, topics) {
					var at int
					_, _ = fmt.Sscan(topic.Name, &at)
					require.Equal(t, answers[at].rows, f.rows(topic.Name), "seed %d", seed)
				}
				f.r.Leave()
			}
		})
	}
}

func topicsOf(f *follower, topics []Topic) []Topic {
	if len(f.r.topics) == 2 {
		return []Topic{topics[0], topics[2]}
	}
	return topics
}
