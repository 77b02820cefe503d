package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TokensFile is a file of tokens that may change while the node runs. An empty path means no file.
type TokensFile struct {
	Path string
	Read func() ([]Token, error) // reads the file and checks its form
}

// Access holds the tokens of the API: fixed ones, and those of a file, which is read again when it has changed.
type Access struct {
	fixed  []Token
	file   TokensFile
	tls    TLSFiles
	logger hclog.Logger
	reread[[]hashedToken]
}

type hashedToken struct {
	name    string
	digest  [sha256.Size]byte // unused for an entry with a certificate
	scopes  []Scope
	expires time.Time

	certificate string
}

// NewAccess reads the file, where there is one. An invalid file is an error here; later it leaves the tokens unchanged.
// Entries with a certificate need the authorities of clients' certificates among the TLS files.
func NewAccess(fixed []Token, file TokensFile, files TLSFiles, logger hclog.Logger) (*Access, error) {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	a := &Access{fixed: fixed, file: file, tls: files, logger: logger}
	var paths []string
	if file.Path != "" {
		paths = []string{file.Path}
	}
	a.reread = newReread(paths, a.load)
	return a, a.Reload()
}

// restricted reports whether a caller needs a token.
func (a *Access) restricted() bool { return len(a.fixed) > 0 || a.file.Path != "" }

func (a *Access) load() (*[]hashedToken, error) {
	all := append([]Token(nil), a.fixed...)
	problems := CheckCertificates(a.fixed, a.tls, "tokens")
	if a.file.Path != "" {
		read, err := a.file.Read()
		if err != nil {
			return nil, err
		}
		if len(read) == 0 {
			return nil, fmt.Errorf("%s: holds no tokens; `troupe token new` makes one", a.file.Path)
		}
		all = append(all, read...)
		problems = append(problems, CheckCertificates(read, a.tls, a.file.Path)...)
	}
	if problems = append(problems, CheckTokens(all)...); len(problems) > 0 {
		return nil, errors.New("tokens: " + strings.Join(problems, "; "))
	}
	list := make([]hashedToken, len(all))
	for i := range all {
		sum, err := all[i].digest()
		if err != nil {
			return nil, err
		}
		list[i] = hashedToken{name: all[i].Name, digest: sum, scopes: all[i].Scopes, expires: all[i].Expires, certificate: all[i].Certificate}
	}
	return &list, nil
}

// tokens returns the valid tokens. Once a second, one caller checks whether the file has changed. Other callers wait
// for it, so that a removed token is not accepted meanwhile.
func (a *Access) tokens() []hashedToken {
	if a.file.Path == "" {
		return *a.current.Load()
	}
	switch taken, err := a.refresh(); {
	case err != nil:
		a.logger.Warn("tokens not read again; those of before hold", "error", err)
	case taken:
		a.logger.Info("tokens read again", "tokens", len(*a.current.Load()))
	}
	return *a.current.Load()
}

// find compares with every token, in a time that does not depend on which one matches.
func (a *Access) find(secret string) *hashedToken {
	digest, found, list := sha256.Sum256([]byte(secret)), -1, a.tokens()
	for i := range list {
		if list[i].certificate != "" {
			continue
		}
		same := subtle.ConstantTimeCompare(digest[:], list[i].digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return nil
	}
	return &list[found]
}

// certified returns the first entry that has one of the certificate's names.
func (a *Access) certified(names []string) *hashedToken {
	list := a.tokens()
	for i := range list {
		if list[i].certificate != "" && slices.Contains(names, list[i].certificate) {
			return &list[i]
		}
	}
	return nil
}

// ended reports whether the token has expired.
func (t *hashedToken) ended(now time.Time) bool { return !t.expires.IsZero() && !now.Before(t.expires) }
