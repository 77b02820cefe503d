package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// The ledger is a file of fixed-width text records, one for each living process: "boot pid start incarnation". The boot
// after a crash reads it. Nothing is synced: a power failure that loses records also ends the processes in them.

const (
	recordLen  = 128
	recordsMax = 1 << 16 // a file with more is not a ledger
	endTime    = 2 * time.Second
	endPause   = 2 * time.Millisecond
)

// record is one line of the ledger.
type record struct {
	boot        string // the kernel's boot id; start times count from the boot
	id          procID
	incarnation messages.Incarnation
}

func (r record) line() []byte {
	text := fmt.Sprintf("%s %d %d %s", r.boot, r.id.pid, r.id.start, r.incarnation)
	return fmt.Appendf(nil, "%-*s\n", recordLen-1, text)
}

// parseRecord reads one line. ok is false for a free line and for a damaged one.
func parseRecord(line []byte) (r record, ok bool) {
	fields := strings.Fields(string(line))
	if len(fields) != 4 {
		return record{}, false
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil || pid <= 1 {
		return record{}, false
	}
	start, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return record{}, false
	}
	incarnation, err := messages.ParseIncarnation(fields[3])
	if err != nil {
		return record{}, false
	}
	return record{boot: fields[0], id: procID{pid, start}, incarnation: incarnation}, true
}

func parseLedger(raw []byte) []record {
	var records []record
	for line := range bytes.SplitSeq(raw, []byte{'\n'}) {
		if r, ok := parseRecord(line); ok && len(records) < recordsMax {
			records = append(records, r)
		}
	}
	return records
}

func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}

// ledger is the file as the guardian writes it.
type ledger struct {
	mu          sync.Mutex
	file        *os.File
	boot        string
	incarnation messages.Incarnation
	slots       map[procID]int64
	free        []int64
	end         int64 // slots in the file
}

// openLedger opens the file, keeps the records of living processes and frees the others. With an empty path the ledger
// writes nothing.
func openLedger(path string, incarnation messages.Incarnation) (*ledger, error) {
	l := &ledger{boot: bootID(), incarnation: incarnation, slots: make(map[procID]int64)}
	if path == "" {
		return l, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read process ledger: %w", err)
	}
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, fmt.Errorf("open process ledger: %w", err)
	}
	for _, r := range parseLedger(raw) {
		if r.boot == l.boot && r.id.alive() {
			if err := l.write(r); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// probeLedger tests whether the file can be used. It returns the error to the node; the guardian could only write it to
// standard error.
func probeLedger(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("process ledger: %w", err)
	}
	return file.Close()
}

// add records a living process.
func (l *ledger) add(id procID) error {
	return l.write(record{boot: l.boot, id: id, incarnation: l.incarnation})
}

func (l *ledger) write(r record) error {
	if l.file == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := l.end
	if n := len(l.free); n > 0 {
		slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.end++
	}
	l.slots[r.id] = slot
	if _, err := l.file.WriteAt(r.line(), slot*recordLen); err != nil {
		return fmt.Errorf("write process ledger: %w", err)
	}
	return nil
}

// remove frees the record of a process that has been reaped. A record that could not be cleared does no harm, because
// no other process has the same start time.
func (l *ledger) remove(id procID) {
	if l.file == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slot, ok := l.slots[id]
	if !ok {
		return
	}
	delete(l.slots, id)
	l.free = append(l.free, slot)
	_, _ = l.file.WriteAt(fmt.Appendf(nil, "%-*s\n", recordLen-1, ""), slot*recordLen)
}

// EndSurvivors ends the processes that an earlier boot of a node left running, and empties the ledger at path. It finds
// them by the ledger, by the cgroups of its incarnations and by the marks in environments. A node calls it at boot,
// before it rescues executions and before it starts a guardian. It returns how many processes it ended. The error names
// those that it could not end within two seconds. It does not touch another process that has one of the pids today. A
// missing ledger counts as empty.
func EndSurvivors(path string) (ended int, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read process ledger: %w", err)
	}
	recorded, marks, incarnations := survivors(parseLedger(raw))
	grouped, stuck := endGroups(incarnations)
	ended, left := endAll(func() ([]procID, bool) { return append(treesOf(recorded), marked(marks)...), true })
	ended += grouped
	if left += stuck; left > 0 {
		return ended, fmt.Errorf("end survivors in process ledger %s: %d processes do not die: look for state D in ps", path, left)
	}
	if err := os.Truncate(path, 0); err != nil {
		return ended, fmt.Errorf("empty process ledger: %w", err)
	}
	return ended, nil
}

// survivors lists the processes that the records of this boot name, and all incarnations in the records with their
// marks.
func survivors(records []record) (ids []procID, marks []string, incarnations []messages.Incarnation) {
	boot := bootID()
	seen := make(map[messages.Incarnation]bool)
	for _, r := range records {
		if r.boot != boot {
			continue
		}
		ids = append(ids, r.id)
		if !seen[r.incarnation] {
			seen[r.incarnation] = true
			incarnations = append(incarnations, r.incarnation)
			marks = append(marks, lineage(r.incarnation.String(), ""), incarnationVar+"="+r.incarnation.String())
		}
	}
	return ids, marks, incarnations
}
