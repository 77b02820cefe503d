package pack

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/troupe-run/troupe/runtime"
)

// Bounds on entrypoints and commands.
const (
	entrypointMax = 512  // bytes
	argvMax       = 256  // words of a command
	wordMax       = 8192 // bytes of one word
)

var (
	functionPattern = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)
	handlerPattern  = regexp.MustCompile(`^[A-Za-z0-9_]+([./-][A-Za-z0-9_]+)*$`)
)

// fileEntrypoint reads an entrypoint that is a function of a file and returns it as file:function. The default function
// is run.
func (f *fields) fileEntrypoint(root *os.Root, spec *runtime.Spec) string {
	node := f.nodes["entrypoint"]
	text := f.text("entrypoint", entrypointMax, false)
	if node == nil {
		f.fail(f.node, "entrypoint is missing: runtime %s needs one, like actions/%s", spec.Name, spec.Example)
	}
	if text == "" {
		return ""
	}
	file, function := text, "run"
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		file, function = text[:i], text[i+1:]
	}
	if !functionPattern.MatchString(function) {
		f.fail(node, "entrypoint %q: %q is not the name of a function", clip(text), clip(function))
		return ""
	}
	if problem := checkInside(root, file, false); problem != "" {
		f.fail(node, "entrypoint %q: %s", clip(text), problem)
		return ""
	}
	return path.Clean(file) + ":" + function
}

// handler reads an entrypoint that names a handler of the binary. The default is the action's ref. An empty ref means
// that the action's name is wrong, which is noted already.
func (f *fields) handler(ref string, known func(string) bool) string {
	node := f.nodes["entrypoint"]
	text := f.text("entrypoint", entrypointMax, false)
	if node == nil {
		text, node = ref, f.node
	}
	if text == "" {
		return ""
	}
	if !handlerPattern.MatchString(text) {
		f.fail(node, "entrypoint %q is not the name of a handler: letters, digits and _, joined by . / or -", clip(text))
		return ""
	}
	if known != nil && !known(text) {
		f.fail(node, "entrypoint %q: this binary has no such Go handler: register it or correct the name", clip(text))
		return ""
	}
	return text
}

// command reads the argv of an action, or of a pool.
func (f *fields) command(root *os.Root, script func(io.Reader) string) []string {
	node := f.nodes["command"]
	before := f.problems.count()
	argv := f.texts("command", argvMax, wordMax, true)
	if node == nil || f.problems.count() > before {
		return nil
	}
	if len(argv) == 0 {
		f.fail(node, "command is empty: give the program and its arguments as a list")
		return nil
	}
	problem := checkProgram(root, argv[0])
	if problem == "" && script != nil && strings.Contains(argv[0], "/") {
		problem = checkScript(root, argv[0], script)
	}
	if problem != "" {
		f.fail(node.Content[0], "command: %q: %s", clip(argv[0]), problem)
		return nil
	}
	return argv
}

// checkProgram returns the problem with a command's program, or nothing. A program without a slash is found in the PATH
// of the worker's environment at its start. That PATH is not known here.
func checkProgram(root *os.Root, program string) string {
	if strings.TrimSpace(program) != program || strings.ContainsAny(program, "\n\t") {
		return "the program's name begins or ends with white space, or holds a line break or tab"
	}
	if !strings.Contains(program, "/") {
		return ""
	}
	if !filepath.IsAbs(program) {
		return checkInside(root, program, true)
	}
	info, err := os.Stat(program)
	if err != nil {
		return fileError(err).Error()
	}
	return checkMode(info, true)
}

// checkScript returns the problem with a program that is a script, or nothing. A file that the node may execute and not read is no script.
func checkScript(root *os.Root, program string, problem func(io.Reader) string) string {
	open := root.Open
	if filepath.IsAbs(program) {
		open = os.Open
	}
	f, err := open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	return problem(f)
}

// checkInside returns the problem with a file of the pack, or nothing.
func checkInside(root *os.Root, name string, program bool) string {
	switch {
	case name == "":
		return "the file's name is missing"
	case path.IsAbs(name):
		return "the path must be relative to the pack"
	case strings.Contains(name, `\`):
		return `the path must use / and not \`
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "the path must not contain .."
		}
	}
	info, err := root.Stat(name)
	if err != nil {
		return fileError(err).Error()
	}
	return checkMode(info, program)
}

func checkMode(info os.FileInfo, program bool) string {
	switch {
	case info.IsDir():
		return "it is a folder"
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case program && info.Mode().Perm()&0o111 == 0:
		return "the file is not executable: chmod +x it"
	}
	return ""
}

// forbid notes keys that are not allowed here.
func (f *fields) forbid(why string, keys ...string) {
	for _, key := range keys {
		if node := f.get(key); node != nil {
			f.fail(node, "%s %s", f.path+key, why)
		}
	}
}
