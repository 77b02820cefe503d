package process

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/mask"
)

// Launcher starts programs. A node uses Guardian.
type Launcher interface {
	// Start starts the program and returns once it runs. Each event goes to sink, in order and one call at a time. sink
	// must not block, and may be called before Start returns. The last event is Exited. A program that could not be
	// started gives an error and no events. An error that wraps ErrShortage says that the node lacks a resource and
	// that nothing has begun. After an error that wraps only ErrGuardian, or ctx's error, the program may have done
	// work.
	Start(ctx context.Context, spec Spec, sink func(Event)) (Process, error)
}

// Spec is one program to start.
type Spec struct {
	Argv []string // argv[0] is looked up in Env's PATH
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
	// Masks replaces secrets in the program's output and in its events' texts, but not in results and chunks. Nil:
	// none.
	Masks *mask.Set
	// RunMasks does the same for secrets of the program's one run; see Process.Mask.
	RunMasks *mask.Set
	// User is the user that the program runs as; nil: the node's user. It needs MaySwitch.
	User *messages.User
	// Umask is the program's; nil: the node's.
	Umask *uint32
}

// Process is one running program. All methods are safe for concurrent use and none waits for the program.
type Process interface {
	Pid() int
	// Send queues one request frame and returns its id. The queue is bounded; an error means that the frame is not sent
	// (the queue is full, the pipe is closed, the frame is too large).
	Send(command string, args any) (id uint64, err error)
	// Terminate sends SIGTERM to the program's process group.
	Terminate()
	// Kill sends SIGKILL to the program and every descendant that it can find.
	Kill()
	// CloseInput closes the request pipe, which asks a framed program to exit.
	CloseInput()
	// TakeOutput returns the output since the last call and counts the bound anew.
	TakeOutput() messages.Output
	// ClearOutput drops the output so far, with the tail of standard error.
	ClearOutput()
	// Mask replaces the secrets of a run, beside those of Spec.Masks, in what the program says from now on.
	Mask(run *mask.Set)
	// StderrTail returns the last few KiB of standard error since ClearOutput. TakeOutput does not change it.
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

// Event is something that happened to a program.
type Event interface{ isEvent() }

// Reply is the answer to the request ID: Result, or Err if the program answered with an error.
type Reply struct {
	ID     uint64
	Result json.RawMessage
	Err    *messages.Error
	Close  bool // the program asks to be replaced
}

// Progress is progress of the running execute ID. Fraction is negative where the program gave none.
type Progress struct {
	ID       uint64
	Fraction float64
	Message  string
}

// Chunk is a streamed piece of the result of the execute ID. Err: the piece cannot be kept, and the run fails with that, whatever it
// answers later.
type Chunk struct {
	ID   uint64
	Data json.RawMessage
	Err  *messages.Error
}

// Log is a line that the program logged; ID 0: outside a run.
type Log struct {
	ID      uint64
	Level   string
	Message string
}

// Fault is a failure of the program's code that came after the run that made it, or outside of all runs: an error that a
// timer or a thread of an ended run threw. It answers no request. Execution is zero where the program cannot tell which run
// it came from. A program sends it only to a node that said at hello that it takes it.
type Fault struct {
	Execution messages.ExecutionID
	Attempt   messages.Attempt
	Err       *messages.Error
}

// Wrote is output as it arrived, without bytes past the bound.
type Wrote struct {
	Stderr bool
	Data   []byte
}

// Broken says that the program broke the protocol. The program is being killed; Exited follows.
type Broken struct{ Reason string }

// Exited says that the program has ended and been reaped.
type Exited struct{ Exit Exit }

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; -1: ended by a signal
	Signal string // name of the signal, empty for none
	Cause  Cause
	// Lost says that the wait status is unknown, because the guardian died before it could report it.
	Lost bool
	// Left names processes that the program had started and that were ended with it, as "sleep (12), sh (13) and 3 more". Empty: none was
	// seen, or Troupe ended the program itself.
	Left string
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
func (Fault) isEvent()    {}
func (Wrote) isEvent()    {}
func (Broken) isEvent()   {}
func (Exited) isEvent()   {}
