package messages

import (
	"regexp"
	"time"
)

// Limits bounds what one program and its descendants may use. Zero fields mean no limit, with these exceptions: of threads, where the
// kernel holds a bound on them, and of open files a program has the defaults of package process, and it may raise that of open files to
// the node's own hard limit. No program writes a core dump unless it raises that limit itself.
type Limits struct {
	Memory    int64         // bytes, resident, of the whole process tree
	CPUTime   time.Duration // RLIMIT_CPU of the program
	OpenFiles uint64        // RLIMIT_NOFILE of the program
	Processes int           // in the process tree
}

// User is who a program runs as, other than the node's own user.
type User struct {
	Name     string // empty: the uid has none
	Home     string // empty: none is known
	UID, GID uint32
	Groups   []uint32 // supplementary
}

// UserPattern is what a pool may give as its user: a name or a uid, and behind a colon a group's name or gid.
var UserPattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10})(:([A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10}))?$`)
