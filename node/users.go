package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/sdk"
)

// lookUpUser says who a pool's user is here, or what keeps this node from running programs as that user.
func lookUpUser(text string) (messages.User, error) {
	if err := process.MaySwitch(); err != nil {
		return messages.User{}, err
	}
	return process.LookUpUser(text)
}

// userEnv are the variables by which programs know who they run as, in place of the node's.
func userEnv(u *messages.User) (env []string) {
	if u == nil {
		return nil
	}
	if u.Home != "" {
		env = append(env, "HOME="+u.Home)
	} else {
		env = append(env, "HOME=/")
	}
	if u.Name != "" {
		env = append(env, "USER="+u.Name, "LOGNAME="+u.Name)
	}
	return env
}

// kits are the SDKs that programs load, and a copy that the users of pools can read: the data folder is the node's alone.
type kits struct {
	data   string
	shared atomic.Pointer[string] // the folder of the copy; nil: no pool needs one
}

// write makes the copy where a pool of the set has a user of its own.
func (k *kits) write(set *pack.Set) error {
	for i := range set.Pools {
		if set.Pools[i].As == nil {
			continue
		}
		dir, err := sharedFolder(k.data, "sdk", 0o755, "/run", os.TempDir())
		if err == nil {
			err = errors.Join(sdk.Materialize(dir), openFolders(dir))
		}
		if err != nil {
			return fmt.Errorf("pool %s: the SDKs for its user %s: %w", set.Pools[i].Name, set.Pools[i].User, err)
		}
		k.shared.Store(&dir)
		return nil
	}
	return nil
}

// openFolders lets every user enter the folders under one, whatever the node's umask.
func openFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// remove removes the copy. What is left by a crash is the next boot's.
func (k *kits) remove(logger hclog.Logger) {
	if dir := k.shared.Load(); dir != nil {
		if err := os.RemoveAll(*dir); err != nil {
			logger.Warn("shared folder not removed", "folder", *dir, "error", err)
		}
	}
}

// of is the folder that a pool's workers load the SDKs from.
func (k *kits) of(p *pack.Pool) string {
	if dir := k.shared.Load(); p.As != nil && dir != nil {
		return *dir
	}
	return k.data
}

var errNotOurs = errors.New("somebody else has made it, or may write to it: remove it")

// sharedFolder makes a folder outside of the data folder, in the first of the places that takes it, and returns its path. Its name
// is the data folder's own, so that a node finds after a crash what it has left there. One that is there already is taken only if it
// is this process's user's alone.
func sharedFolder(data, kind string, mode fs.FileMode, places ...string) (path string, err error) {
	var errs []error
	for _, place := range places {
		path = sharedPath(data, kind, place)
		if err = ownFolder(path, mode); err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func sharedPath(data, kind, place string) string {
	sum := sha256.Sum256([]byte(data))
	return filepath.Join(place, "troupe-"+kind+"-"+hex.EncodeToString(sum[:8]))
}

func ownFolder(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || !owned(info, os.Geteuid()) || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w", path, errNotOurs)
	}
	return os.Chmod(path, mode) // whatever the umask
}
