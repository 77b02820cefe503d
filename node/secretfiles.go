package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
)

// fileSuffix ends the variable that has the path of a secret which workers get as a file.
const fileSuffix = pack.SecretFileSuffix

// given is one secret for a program.
type given struct {
	name, value string
	file        bool
}

// secretPlaces are where files of secrets may be, best first: in memory, and only where no such place is there on a disk.
func secretPlaces() (places []string) {
	for _, place := range []string{"/dev/shm", "/run"} {
		var of unix.Statfs_t
		if unix.Statfs(place, &of) == nil && of.Type == unix.TMPFS_MAGIC {
			places = append(places, place)
		}
	}
	return append(places, os.TempDir())
}

// hand makes the variables of a program's secrets, and the files of those that it gets as such. Done removes them.
func (s *secrets) hand(p *pack.Pool, all []given) (env []string, done func(), err error) {
	done = func() {}
	folder := ""
	for _, g := range all {
		if !g.file {
			env = append(env, g.name+"="+g.value)
			continue
		}
		if folder == "" {
			if folder, err = s.privateFolder(p.As); err == nil {
				done = func() { _ = os.RemoveAll(folder) } // what stays is removed with the node's, at its stop or its next start
			}
		}
		path := filepath.Join(folder, g.name)
		if err == nil {
			err = writeSecret(path, g.value, p.As)
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("pool %s: secret %s as a file: %w", p.Name, g.name, process.Short(err))
		}
		env = append(env, g.name+fileSuffix+"="+path)
	}
	return env, done, nil
}

// privateFolder makes the folder of one program's files. It stays the node's, so that a program of another user finds its files in
// it and cannot change what is there; only that user may read them.
func (s *secrets) privateFolder(as *messages.User) (string, error) {
	parent, err := sharedFolder(s.data, "secrets", 0o711, secretPlaces()...)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(parent, "")
	if err != nil || as == nil {
		return folder, err
	}
	if err := os.Chmod(folder, 0o711); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// writeSecret makes a file that its owner alone may read.
func writeSecret(path, value string, as *messages.User) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	err = errors.Join(err, f.Chmod(0o400))
	if as != nil {
		err = errors.Join(err, f.Chown(int(as.UID), int(as.GID)))
	}
	return errors.Join(err, f.Close())
}

// clearSecrets removes the files of all programs: none runs, and what a crash has left is there.
func clearSecrets(data string) error {
	var errs []error
	for _, place := range secretPlaces() {
		path := sharedPath(data, "secrets", place)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !owned(info, os.Geteuid()) {
			continue // what is somebody else's is not used
		}
		errs = append(errs, err, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}
