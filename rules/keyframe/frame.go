package keyframe

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// Bounds of a keyframe.
const (
	PoolsMax  = 1000
	SlotsMax  = 100_000 // of one pool
	TextMax   = 512     // bytes of a name
	decodeMax = 16 << 20
)

// Frame is what a node had at a moment.
type Frame struct {
	Node     string `json:"node"` // its name
	Version  string `json:"version"`
	Draining bool   `json:"draining,omitempty"`
	Cordoned bool   `json:"cordoned,omitempty"`
	Last     bool   `json:"last,omitempty"`    // the node began to stop
	Mailbox  int    `json:"mailbox,omitempty"` // messages in the fullest mailbox of the actors outside of pools
	Pools    []Pool `json:"pools"`
}

// Pool is a node's part of a pool.
type Pool struct {
	Name     string               `json:"name"`
	Runtime  messages.Runtime     `json:"runtime"`
	Broken   bool                 `json:"broken,omitempty"`
	Cordoned bool                 `json:"cordoned,omitempty"`
	Mode     string               `json:"mode,omitempty"`    // alone, leading or following
	Router   messages.Incarnation `json:"router,omitzero"`   // who leads; zero: nobody
	Epoch    int64                `json:"epoch,omitempty"`   // of the router
	Bound    int                  `json:"bound,omitempty"`   // sessions that are bound to workers, as a router knows them
	Waiting  int                  `json:"waiting,omitempty"` // executions that the router holds, because they cannot be placed yet
	Mailbox  int                  `json:"mailbox,omitempty"` // messages in the fullest mailbox of the pool's actors
	Slots    []Slot               `json:"-"`                 // the first is slot 0
}

// Slot is the place of one worker.
type Slot struct {
	Used       bool // false: no worker was there
	Generation messages.Generation
	State      lifecycle.State
	Grade      health.Grade
	Cordoned   bool
	Age        time.Duration // in its state; written in whole seconds, rounded down
}

// columns are the slots of a pool as they are written: each column by runs.
type columns struct {
	States   string `json:"states,omitempty"`
	Grades   string `json:"grades,omitempty"`
	Cordons  string `json:"cordons,omitempty"` // left out where no worker is cordoned
	Gens     []int  `json:"generations,omitempty"`
	Ages     []int  `json:"ages,omitempty"`
	Overflow int    `json:"overflow,omitempty"` // slots that are left out
}

type written struct {
	Pool
	columns
}

// The letters of columns. The index is a lifecycle.State or a health.Grade.
const (
	StateLetters = "irbdtx"
	GradeLetters = "?hdu"
	noWorker     = '-'
)

// Encode writes a frame. What is over its bounds is left out.
func Encode(f *Frame) ([]byte, error) {
	w := struct {
		*Frame
		Pools []written `json:"pools"`
	}{Frame: f}
	for _, p := range f.Pools[:min(len(f.Pools), PoolsMax)] {
		w.Pools = append(w.Pools, written{p, columnsOf(p.Slots)})
	}
	raw, err := json.Marshal(&w)
	if err != nil {
		return nil, fmt.Errorf("encode a keyframe: %w", err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err = z.Write(raw); err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}

func columnsOf(slots []Slot) (c columns) {
	if over := len(slots) - SlotsMax; over > 0 {
		c.Overflow, slots = over, slots[:SlotsMax]
	}
	var states, grades, cordons []byte
	var generations, ages []int
	for i := range slots {
		s := &slots[i]
		state, grade, cordoned := byte(noWorker), byte(noWorker), byte('0')
		if s.Used {
			state, grade = letter(StateLetters, int(s.State)), letter(GradeLetters, int(s.Grade))
		} else {
			s = &Slot{}
		}
		if s.Cordoned {
			cordoned = '1'
		}
		states, grades, cordons = append(states, state), append(grades, grade), append(cordons, cordoned)
		generations, ages = append(generations, int(s.Generation)), append(ages, int(max(s.Age, 0)/time.Second))
	}
	c.States, c.Grades, c.Gens, c.Ages = Runs(states), Runs(grades), pairs(generations), pairs(ages)
	if bytes.IndexByte(cordons, '1') >= 0 {
		c.Cordons = Runs(cordons)
	}
	return c
}

// letter is one of the letters, and ? for what has none.
func letter(letters string, i int) byte {
	if i < 0 || i >= len(letters) {
		return '?'
	}
	return letters[i]
}

// pairs writes numbers by runs: each number and how often it follows itself.
func pairs(numbers []int) (runs []int) {
	for _, n := range numbers {
		if last := len(runs) - 2; last >= 0 && runs[last] == n {
			runs[last+1]++
			continue
		}
		runs = append(runs, n, 1)
	}
	return runs
}

// errDamaged is why a keyframe cannot be read.
var errDamaged = errors.New("the keyframe is damaged")

// unpair is the inverse of pairs, for so many numbers.
func unpair(runs []int, count int) ([]int, error) {
	if len(runs)%2 != 0 {
		return nil, errDamaged
	}
	var numbers []int
	for i := 0; i < len(runs); i += 2 {
		if runs[i] < 0 || runs[i+1] < 1 || runs[i+1] > count-len(numbers) {
			return nil, errDamaged
		}
		numbers = append(numbers, slices.Repeat(runs[i:i+1], runs[i+1])...)
	}
	if len(numbers) != count {
		return nil, errDamaged
	}
	return numbers, nil
}

// Decode is the inverse of Encode. It returns an error for what is no keyframe, or a larger one than a node makes.
func Decode(b []byte) (*Frame, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, decodeMax+1))
	if err == nil && len(raw) > decodeMax {
		err = fmt.Errorf("it has more than %d bytes", decodeMax)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	var f Frame
	w := struct {
		*Frame
		Pools []written `json:"pools"`
	}{Frame: &f}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(w.Pools) > PoolsMax {
		return nil, fmt.Errorf("%w: %d pools", errDamaged, len(w.Pools))
	}
	for i := range w.Pools {
		p := w.Pools[i].Pool
		if p.Slots, err = w.Pools[i].slots(); err != nil {
			return nil, fmt.Errorf("pool %q: %w", p.Name, err)
		}
		f.Pools = append(f.Pools, p)
	}
	return &f, nil
}

// slots reads the columns.
func (c *columns) slots() ([]Slot, error) {
	states, err := Unrun(c.States, SlotsMax)
	if err != nil {
		return nil, err
	}
	grades, err := Unrun(c.Grades, len(states))
	if err != nil || len(grades) != len(states) {
		return nil, errDamaged
	}
	cordons, err := Unrun(c.Cordons, len(states))
	if err != nil || len(cordons) != 0 && len(cordons) != len(states) {
		return nil, errDamaged
	}
	generations, err := unpair(c.Gens, len(states))
	if err != nil {
		return nil, err
	}
	ages, err := unpair(c.Ages, len(states))
	if err != nil {
		return nil, err
	}
	var slots []Slot
	for i, state := range []byte(states) {
		if state == noWorker {
			slots = append(slots, Slot{})
			continue
		}
		s := Slot{Used: true, Generation: messages.Generation(generations[i]), Age: time.Duration(ages[i]) * time.Second}
		at := bytes.IndexByte([]byte(StateLetters), state)
		if at < 0 { // of a later version
			return nil, fmt.Errorf("%w: %q is no state", errDamaged, state)
		}
		s.State = lifecycle.State(at)
		s.Grade = health.Grade(max(bytes.IndexByte([]byte(GradeLetters), grades[i]), 0))
		s.Cordoned = len(cordons) > 0 && cordons[i] == '1'
		slots = append(slots, s)
	}
	return slots, nil
}
