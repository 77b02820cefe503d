package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileMax bounds a YAML file, in bytes.
const fileMax = 256 << 10

// source is one YAML file during a Load. Its problems begin with the owner and end with file and line.
type source struct {
	owner    string // "pack core: action fetch"
	what     string // name of its outermost mapping; empty: the file
	file     string // path in messages
	problems *Problems
}

// fail notes a problem at a node, or of the whole file where at is nil.
func (s *source) fail(at *yaml.Node, format string, args ...any) {
	place := s.file
	if at != nil && at.Line > 0 {
		place += ":" + strconv.Itoa(at.Line)
	}
	s.problems.add("%s: %s (%s)", s.owner, fmt.Sprintf(format, args...), place)
}

// read opens a file inside the root and returns its one document. If it cannot, it notes why and returns nil.
func (s *source) read(root *os.Root, name string) *yaml.Node {
	data, err := readFile(root, name)
	if err != nil {
		s.fail(nil, "%v", err)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		s.failYAML(err)
		return nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			s.failYAML(err)
			return nil
		}
		s.fail(&second, "a second document: keep one per file")
		return nil
	}
	if len(document.Content) == 0 {
		s.fail(nil, "the file is empty")
		return nil
	}
	return document.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// failYAML notes the parser's error with the right line.
func (s *source) failYAML(err error) {
	if errors.Is(err, io.EOF) {
		s.fail(nil, "the file is empty")
		return
	}
	match := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if match == nil {
		s.fail(nil, "not valid YAML: %s", clip(err.Error()))
		return
	}
	line, _ := strconv.Atoi(match[1]) // 0 where there is none
	if line > 0 && strings.HasPrefix(match[2], "did not find expected") {
		line++ // the parser counts lines from 0, the scanner from 1
	}
	s.fail(&yaml.Node{Line: line}, "not valid YAML: %s", clip(match[2]))
}

// readFile reads a regular file of bounded size. It tests the type before it opens the file, since opening a named pipe
// would block.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, fileError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, fileError(err)
	}
	defer file.Close() // read only
	data, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	if err != nil {
		return nil, fileError(err)
	}
	if len(data) > fileMax {
		return nil, fmt.Errorf("the file is larger than %d KiB", fileMax>>10)
	}
	return data, nil
}

// fileError says in plain words why a file inside a pack cannot be read.
func fileError(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("the file does not exist")
	case errors.Is(err, os.ErrPermission):
		return errors.New("the file cannot be read: permission denied")
	case strings.Contains(err.Error(), "path escapes from parent"):
		return errors.New("the path leads out of the pack: keep the file inside it; a symlink must be relative")
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("the file cannot be read: %w", path.Err)
	}
	return err
}
