package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is whom a server runs as; nil: as this process does.
type account struct{ uid, gid uint32 }

// accountFor is the named account where this process is root: a server refuses to run as root, or should not. Without a name it is
// this process's own.
func accountFor(name string) (*account, error) {
	if name == "" || os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is this process's own account
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("a private server cannot run as root, and the account %s is not there: %w", name, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", name, err)
	}
	return &account{uint32(uid), uint32(gid)}, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// home is a server's temporary folder with its keeper.
type home struct {
	dir     string
	account *account
	keeper  *keeper
}

func newHome(name, accountName string) (*home, error) {
	a, err := accountFor(accountName)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "troupe-"+name+"-")
	if err != nil {
		return nil, err
	}
	k, err := newKeeper(dir)
	if err != nil {
		return nil, joinError(err, os.RemoveAll(dir))
	}
	return &home{dir: dir, account: a, keeper: k}, a.own(dir)
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// write makes a file of the server's.
func (h *home) write(name, text string, mode os.FileMode) error {
	if err := os.WriteFile(h.path(name), []byte(text), mode); err != nil {
		return err
	}
	return h.account.own(h.path(name))
}

// tail is the end of a file, for a message.
func (h *home) tail(name string) string {
	const bytesMax = 8 << 10
	text, err := os.ReadFile(h.path(name))
	if err != nil {
		return err.Error()
	}
	if len(text) > bytesMax {
		text = text[len(text)-bytesMax:]
	}
	return strings.TrimSpace(string(text))
}

// findProgram is where a server's program is: in the newest of the folders, else on the path.
func findProgram(name string, folders ...string) (string, error) {
	for _, pattern := range folders {
		found, _ := filepath.Glob(filepath.Join(pattern, name)) // the patterns are right
		slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return exec.LookPath(name)
}

// version is the number in a path such as /usr/lib/postgresql/15/bin/postgres; 0: there is none.
func version(path string) int {
	for _, part := range strings.Split(path, "/") {
		if n, err := strconv.Atoi(part); err == nil {
			return n
		}
	}
	return 0
}
