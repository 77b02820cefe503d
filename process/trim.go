package process

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TrimProgram takes out of this process's memory the parts of its own program file that it has read so far. Most of them were needed
// once, while the process started. What is needed again is mapped again from the page cache, where it stays. Only parts are
// taken that hold nothing but the file's bytes. Where the kernel does not show that, nothing changes.
func TrimProgram() {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer file.Close()
	for _, m := range cleanMappings(file, path) {
		// An error leaves the mapping as it is: a part that is locked in memory, for example.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// cleanMappings reads /proc/PID/smaps (proc(5)) and returns the mappings of a file that cannot be written, and of which no page is a
// copy, as those are that the dynamic linker has changed.
func cleanMappings(smaps io.Reader, path string) (clean []mapping) {
	var now mapping
	of, copies := false, 0 // lines that say that the mapping has no copies
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(line, " ")
		if !strings.HasSuffix(key, ":") { // 00400000-014ad000 r-xp 00000000 fe:00 10593089   /usr/bin/troupe
			now, of, copies = mapping{}, false, 0
			name, found := strings.CutSuffix(value, " "+path)
			if m, ok := rangeOf(key); ok && found && strings.HasPrefix(name, "r-") {
				now, of = m, true
			}
			continue
		}
		if of && (key == "Anonymous:" || key == "Swap:") && strings.TrimSpace(value) == "0 kB" {
			if copies++; copies == 2 {
				clean = append(clean, now)
			}
		}
	}
	return clean
}

// rangeOf reads the addresses of a mapping.
func rangeOf(text string) (m mapping, ok bool) {
	from, to, _ := strings.Cut(text, "-")
	first, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return m, false
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil || end <= first {
		return m, false
	}
	return mapping{uintptr(first), uintptr(end)}, true
}
