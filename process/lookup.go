package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lookPath finds the program by its own environment and directory, so that most errors in a command are found before
// anything is started.
func lookPath(spec Spec) (string, error) {
	if spec.Dir != "" {
		if info, err := os.Stat(spec.Dir); err != nil {
			return "", fmt.Errorf("working directory: %w", err)
		} else if !info.IsDir() {
			return "", fmt.Errorf("working directory %s is not a directory", spec.Dir)
		}
	}
	name := spec.Argv[0]
	if strings.Contains(name, "/") {
		path := under(spec.Dir, name)
		if err := executable(path); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		return path, checkScript(path)
	}
	path, err := searchPath(name, spec)
	if err != nil {
		return "", err
	}
	return path, checkScript(path)
}

// firstLineMax is what the kernel reads of a script's first line (BINPRM_BUF_SIZE of execve(2)).
const firstLineMax = 256

// checkScript says what is wrong with the first line of a script. A file that cannot be read may still be a program.
func checkScript(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a named pipe
	if err != nil {
		return nil //nolint:nilerr // the start itself says what is wrong
	}
	defer f.Close()
	if problem := ScriptProblem(f); problem != "" {
		return fmt.Errorf("%s: %s", path, problem)
	}
	return nil
}

// ScriptProblem says what is wrong with the first line of a script, from its beginning: a carriage return at its end, which becomes part of
// the interpreter's name or of its argument, or an interpreter that is not on this machine. Empty: nothing, or it is no script.
func ScriptProblem(file io.Reader) string {
	head := make([]byte, firstLineMax)
	n, _ := io.ReadFull(file, head)
	line, isScript := strings.CutPrefix(string(head[:n]), "#!")
	if !isScript {
		return ""
	}
	line, _, whole := strings.Cut(line, "\n")
	if whole && strings.HasSuffix(line, "\r") {
		return `its first line ends with a carriage return, so the interpreter is not found: save the file with the line ends of Unix`
	}
	words := strings.Fields(line)
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return ""
	}
	if err := executable(words[0]); err != nil {
		return fmt.Sprintf("the interpreter in its first line, %s: %v", words[0], err)
	}
	return ""
}

// searchPath tries the directories of PATH in order. If nothing can be run, the error names a file that exists but may
// not be run.
func searchPath(name string, spec Spec) (string, error) {
	list, set := variable(spec.Env, "PATH")
	if !set {
		return "", errors.New("its environment has no PATH: set one, or give the full path")
	}
	var found error
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(under(spec.Dir, dir), name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if found == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			found = fmt.Errorf("%s: %w", path, err)
		}
	}
	if found != nil {
		return "", found
	}
	return "", fmt.Errorf("executable file not found in PATH (%s): install it, or give the full path", list)
}

// under resolves a relative path from the program's working directory.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if dir == "" {
		dir = "/"
	}
	return filepath.Join(dir, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return errors.New("is a directory")
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("may not be executed: %w", err)
	}
	return nil
}

// lastOnes keeps the last value of each variable. Of several values, some programs use the first and others the last.
func lastOnes(env []string) []string {
	last := make(map[string]int, len(env))
	for i, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	if len(last) == len(env) {
		return env
	}
	kept := make([]string, 0, len(last))
	for i, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); last[name] == i {
			kept = append(kept, entry)
		}
	}
	return kept
}

// variable returns the last value of a variable, which is the value that the program gets.
func variable(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}
