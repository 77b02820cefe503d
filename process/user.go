package process

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// userGroupsMax bounds the supplementary groups of one user. The kernel takes 65,536; a user has a few.
const userGroupsMax = 1024

// LookUpUser returns a user of this machine by "name", "uid", "name:group" or "uid:gid". Without a group it takes the
// user's own; a uid without a user needs a group. The supplementary groups come from the machine's databases.
func LookUpUser(text string) (messages.User, error) {
	if !messages.UserPattern.MatchString(text) {
		return messages.User{}, fmt.Errorf("%q is neither a name nor a uid, with :group or without", text)
	}
	name, group, _ := strings.Cut(text, ":")
	u, known, err := findUser(name)
	if err != nil {
		return messages.User{}, err
	}
	switch {
	case group != "":
		if u.GID, err = findGroup(group); err != nil {
			return messages.User{}, err
		}
	case !known:
		return messages.User{}, fmt.Errorf("no user of this machine has the uid %s: give a group too, %s:gid", name, name)
	}
	return u, nil
}

// findUser finds a user by name or uid. A uid need not belong to a known user.
func findUser(name string) (u messages.User, known bool, err error) {
	var id uint32
	var found *user.User
	if name[0] >= '0' && name[0] <= '9' {
		if id, err = number(name); err != nil {
			return messages.User{}, false, err
		}
		found, err = user.LookupId(name)
	} else {
		found, err = user.Lookup(name)
	}
	var noID user.UnknownUserIdError
	var noName user.UnknownUserError
	switch {
	case errors.As(err, &noID):
		return messages.User{UID: id}, false, nil
	case errors.As(err, &noName):
		return messages.User{}, false, fmt.Errorf("this machine has no user %s: make it, or name another", name)
	case err != nil:
		return messages.User{}, false, fmt.Errorf("look up user %s: %w", name, err)
	}
	u = messages.User{Name: found.Username, Home: found.HomeDir}
	if u.UID, err = number(found.Uid); err != nil {
		return messages.User{}, false, err
	}
	if u.GID, err = number(found.Gid); err != nil {
		return messages.User{}, false, err
	}
	ids, err := found.GroupIds()
	if err != nil {
		return messages.User{}, false, fmt.Errorf("look up the groups of user %s: %w", name, err)
	}
	if len(ids) > userGroupsMax {
		return messages.User{}, false, fmt.Errorf("user %s is in %d groups, at most %d are taken", name, len(ids), userGroupsMax)
	}
	for _, text := range ids {
		gid, err := number(text)
		if err != nil {
			return messages.User{}, false, err
		}
		u.Groups = append(u.Groups, gid)
	}
	return u, true, nil
}

func findGroup(name string) (uint32, error) {
	if gid, err := number(name); err == nil {
		return gid, nil
	}
	found, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("this machine has no group %s: make it, or name another", name)
	}
	return number(found.Gid)
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 { // the kernel's value for no user
		return 0, fmt.Errorf("%q is no id of a user or a group", text)
	}
	return uint32(n), nil
}

// switchCaps are the capabilities that a guardian needs for programs of another user: to switch to the user, to end the
// program, and to give it its pipes.
const switchCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// MaySwitch returns why this process cannot run programs as another user, or nil.
func MaySwitch() error {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("look at the capabilities of the node: %w", err)
	}
	return maySwitch(string(raw), os.Geteuid())
}

// maySwitch reads the text of /proc/self/status. A process that is not root would need ambient capabilities. All
// programs that it starts keep those, even as another user. Only root loses all capabilities when it switches to
// another user.
func maySwitch(status string, euid int) error {
	if euid != 0 {
		return fmt.Errorf("this node, of uid %d, may not run programs as another user: run it as root, or leave the user out", euid)
	}
	_, rest, _ := strings.Cut(status, "\nCapEff:")
	text, _, _ := strings.Cut(rest, "\n")
	have, _ := strconv.ParseUint(strings.TrimSpace(text), 16, 64) // 0 where the line is missing
	var missing []string
	for lack := uint64(switchCaps) &^ have; lack != 0; lack &= lack - 1 {
		missing = append(missing, map[int]string{
			unix.CAP_CHOWN: "CAP_CHOWN", unix.CAP_KILL: "CAP_KILL", unix.CAP_SETGID: "CAP_SETGID", unix.CAP_SETUID: "CAP_SETUID",
		}[bits.TrailingZeros64(lack)])
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("this node is root and may not run programs as another user: it lacks %s: give it these capabilities, or leave the "+
		"user out", strings.Join(missing, ", "))
}

// credential returns a user in the kernel's form.
func credential(u *messages.User) *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// giveTo makes the user the owner of the program's ends of its pipes, so that the program may open them again, as by
// /dev/stderr.
func giveTo(u *messages.User, fds []int) error {
	if u == nil {
		return nil
	}
	for _, fd := range fds {
		if err := unix.Fchown(fd, int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("give a pipe to uid %d: %w", u.UID, err)
		}
	}
	return nil
}
