package pack

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/messages"
)

// umaskPattern is three octal digits, with or without a leading zero.
var umaskPattern = regexp.MustCompile(`^0?[0-7]{3}$`)

// userMax bounds user: two names and a colon, in bytes.
const userMax = 65

// readUser reads the user and the umask of the pool's programs. The node decides whether it may switch to the user.
func (l *loader) readUser(f *fields, p *Pool) {
	if text, node := f.scalar("user", userMax); node != nil {
		switch as, err := l.user(text); {
		case !messages.UserPattern.MatchString(text):
			f.fail(node, "user must be a name or a uid, with :group or without, got %s", strconv.Quote(clip(text)))
		case err != nil:
			f.fail(node, "user %s: %v", clip(text), err)
		default:
			p.User, p.As = text, as
		}
	}
	if text, node := f.scalar("umask", userMax); node != nil {
		if !umaskPattern.MatchString(text) {
			f.fail(node, "umask must be three octal digits, such as 027, got %s", strconv.Quote(clip(text)))
			return
		}
		mask, _ := strconv.ParseUint(text, 8, 32) // the pattern is octal
		bits := uint32(mask)
		p.Umask = &bits
	}
}

// user looks a user up if the options say how.
func (l *loader) user(text string) (*messages.User, error) {
	if l.options.User == nil || !messages.UserPattern.MatchString(text) {
		return nil, nil //nolint:nilnil // not looked up
	}
	u, err := l.options.User(text)
	if err != nil {
		return nil, err
	}
	return &u, nil
}

// scalar reads a text as it is written, even if YAML reads it as a number. The node is nil if the key is missing or a
// problem was noted.
func (f *fields) scalar(key string, most int) (string, *yaml.Node) {
	node := f.get(key)
	switch {
	case node == nil:
		return "", nil
	case node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null":
		f.fail(node, "%s must be text, got %s", key, describe(node))
		return "", nil
	case len(node.Value) > most:
		f.fail(node, "%s has %d bytes, at most %d are allowed", key, len(node.Value), most)
		return "", nil
	}
	return node.Value, node
}
