package process

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/mask"
)

// Launcher starts programs. Guardian is the one that a node uses.
type Launcher interface {
	// Start starts the program and returns once it runs. Everything that happens to it afterwards reaches sink, in
	// order and one call at a time; sink must not block, and may be called before Start returns. The last thing sink
	// ever gets is Exited; a program that could not be started gives an error and no events. One that wraps ErrShortage
	// is a lack of the node's: nothing has begun. One that wraps ErrGuardian alone, or ctx's own, does not say that the
	// program has done nothing.
	Start(ctx context.Context, spec Spec, sink func(Event)) (Process, error)
}

// Spec is one program to start.
type Spec struct {
	Argv []string // argv[0] is looked up in the Env's PATH
	Dir  string   // working directory; empty: /
	Env  []string // the whole environment, KEY=value
	// Framed gives the program the frame pipes on descriptors 3 and 4.
	Framed bool
	// Stdin is written to the program's standard input, which is then closed. Nil: /dev/null.
	Stdin     []byte
	Limits    messages.Limits
	OutputMax int // bytes kept of each of stdout and stderr per run; 0: messages.OutputMax
	StdoutMax int // bytes kept of stdout where that is more; 0: OutputMax
	FrameMax  int // bytes; 0: messages.FrameMax
	// Masks takes secrets out of the program's output, and of what its events say. Results and chunks stay as they are. Nil: none.
	Masks *mask.Set
	// User is who the program runs as; nil: the node's user. It needs MaySwitch.
	User *messages.User
	// Umask is the program's; nil: the node's.
	Umask *uint32
}

// Process is one running program. All methods are safe for concurrent use and none blocks on the program.
type Process interface {
	Pid() int
	// Send queues one request frame and returns its id. The queue is bounded; an error means that the frame will
	// not arrive (the queue is full, the pipe is closed, the frame is too large).
	Send(command string, args any) (id uint64, err error)
	// Terminate sends SIGTERM to the program's process group.
	Terminate()
	// Kill ends the program and every descendant it can find with SIGKILL.
	Kill()
	// CloseInput closes the request pipe, which asks a framed program to exit.
	CloseInput()
	// TakeOutput returns what the program wrote since the last call and starts a new bound.
	TakeOutput() messages.Output
	// ClearOutput drops what the program has written so far, the tail of its standard error too.
	ClearOutput()
	// StderrTail is the last few KiB of standard error since ClearOutput, kept whatever TakeOutput took.
	StderrTail() string
	// Vitals reads the kernel's view of the program: its state letter and the resident bytes of its process tree.
	Vitals() (Vitals, error)
}

// Vitals is the kernel's view of a program.
type Vitals struct {
	State    byte  // R, S, D, T (stopped), Z (zombie), … as in /proc/PID/stat
	Resident int64 // bytes, the whole tree
	Count    int   // processes in the tree
}

// Event is what a program did.
type Event interface{ isEvent() }

// Reply answers the request ID: Result, or Err where the program answered with an error.
type Reply struct {
	ID     uint64
	Result json.RawMessage
	Err    *messages.Error
	Close  bool // the program asks to be replaced
}

// Progress is a sign of life of the running execute ID. Fraction is negative where none was given.
type Progress struct {
	ID       uint64
	Fraction float64
	Message  string
}

// Chunk is a streamed piece of the result of the execute ID.
type Chunk struct {
	ID   uint64
	Data json.RawMessage
}

// Log is a line the program logged; ID 0: outside a run.
type Log struct {
	ID      uint64
	Level   string
	Message string
}

// Wrote is output the program wrote, as it came; bytes past the bound are not reported.
type Wrote struct {
	Stderr bool
	Data   []byte
}

// Broken says that the program broke the protocol; it is being killed, and Exited follows.
type Broken struct{ Reason string }

// Exited says that the program has ended and been reaped.
type Exited struct{ Exit Exit }

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; -1: ended by a signal
	Signal string // name of the signal, empty for none
	Cause  Cause
	// Lost says that the wait status is not known, because the guardian died before it could be read.
	Lost bool
}

// Cause is why a program ended, as far as Troupe knows.
type Cause string

// The causes.
const (
	CauseExit      Cause = "exit"      // by itself
	CauseSignal    Cause = "signal"    // by a signal that Troupe did not send
	CauseStopped   Cause = "stopped"   // by Troupe's Terminate or Kill
	CauseOOM       Cause = "oom"       // killed by the kernel for memory
	CauseMemory    Cause = "memory"    // over Limits.Memory
	CauseCPU       Cause = "cpu_time"  // over Limits.CPUTime
	CauseProcesses Cause = "processes" // over Limits.Processes
	CauseGuardian  Cause = "guardian"  // its guardian died
)

func (Reply) isEvent()    {}
func (Progress) isEvent() {}
func (Chunk) isEvent()    {}
func (Log) isEvent()      {}
func (Wrote) isEvent()    {}
func (Broken) isEvent()   {}
func (Exited) isEvent()   {}
