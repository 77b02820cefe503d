package pack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/runtime"
)

// Bounds on the contents that are hashed. A larger file, and each file after the total is reached, counts by size and
// time.
const (
	hashFileMax  = 1 << 20
	hashTotalMax = 64 << 20
)

// digest hashes the names, modes and contents of a pack's files. It ignores hidden files, __pycache__, *.pyc and
// node_modules, because interpreters and package managers write them without a change to the pack.
func digest(root *os.Root) (string, error) {
	sum := sha256.New()
	files, total := 0, int64(0)
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read %s: %w", clip(name), fileError(err))
		}
		if name != "." && passing(entry.Name()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		if files++; files > filesMax {
			return fmt.Errorf("the folder holds more than %d files: keep data elsewhere", filesMax)
		}
		n, err := hashEntry(sum, root, name, entry, hashTotalMax-total)
		total += n
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// passing reports whether tools write a file or folder of that name.
func passing(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules" || strings.HasSuffix(name, ".pyc")
}

// hashEntry adds one file and returns how many bytes of content it read. A symlink counts by its target's name and,
// inside the pack, by the target's content.
func hashEntry(sum hash.Hash, root *os.Root, name string, entry fs.DirEntry, left int64) (int64, error) {
	target := ""
	if entry.Type()&fs.ModeSymlink != 0 {
		target, _ = root.Readlink(name) // an unreadable link counts as empty
	}
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		writeParts(sum, name, target, "no file")
		return 0, nil
	}
	writeParts(sum, name, target, info.Mode().Perm().String(), fmt.Sprint(info.Size()))
	if info.Size() > hashFileMax || info.Size() > left {
		writeParts(sum, info.ModTime().UTC().String())
		return 0, nil
	}
	file, err := root.Open(name)
	if err != nil {
		writeParts(sum, "unreadable")
		return 0, nil
	}
	defer file.Close() // read only
	n, err := io.Copy(sum, io.LimitReader(file, hashFileMax))
	if err != nil {
		return n, fmt.Errorf("read %s: %w", clip(name), fileError(err))
	}
	return n, nil
}

// writeParts adds texts with their lengths, so that moving bytes from one text to the next changes the hash.
func writeParts(sum hash.Hash, parts ...string) {
	for _, p := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		sum.Write(length[:]) // a hash never returns an error
		sum.Write([]byte(p))
	}
}

// fingerprint hashes everything that a worker of the pool gets at its start.
func (s *Set) fingerprint(p *Pool, runtimes runtime.Set) string {
	type code struct{ Ref, Entrypoint, Root, Version, Digest string }
	spec := struct {
		Pool  Pool
		Codes []code
	}{Pool: *p}
	spec.Pool.Min, spec.Pool.Max, spec.Pool.Actions, spec.Pool.Fingerprint = 0, 0, nil, ""
	if r, ok := runtimes.Of(p.Runtime); ok && r.LongLived() {
		digests := map[string]string{}
		for _, pack := range s.Packs {
			digests[pack.Name] = pack.Digest
		}
		for _, ref := range p.Actions {
			a, _ := s.Action(ref)
			spec.Codes = append(spec.Codes, code{ref, a.Entrypoint, a.Root, a.Version, digests[a.Pack]})
		}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic("a pool is plain data: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Environ returns the pool's own environment as KEY=value, sorted.
func (p *Pool) Environ() []string {
	env := make([]string, 0, len(p.Env))
	for _, key := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, key+"="+p.Env[key])
	}
	return env
}
