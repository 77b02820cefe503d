package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Token is one bearer token, or a client's certificate in place of one. Name is shown as created_by, in events and in
// logs; Secret never is.
type Token struct {
	Name   string
	Secret string // the token itself or its HashToken; empty with Certificate
	// Certificate is a name of the client's certificate, with its kind: cn:, dns:, email: or uri:.
	Certificate string
	Scopes      []Scope
	Expires     time.Time // when it ends; zero: never
}

// Bounds of tokens.
const (
	secretMin = 16   // characters of a token; a shorter one can be guessed
	nameMax   = 128  // bytes of a token's name
	tokensMax = 1000 // of a node; each request is compared with all
)

// localCaller is the caller of a request without tokens.
const localCaller = "local"

// ProgramCaller is the caller's name, in events and in logs, for a program that embeds the node.
const ProgramCaller = "the program"

// reserved are the node's own names for callers without a token.
var reserved = []string{localCaller, ProgramCaller, "amqp", "sql"}

// hashPrefix is the prefix of a token's SHA-256 in hexadecimal digits.
const hashPrefix = "sha256:"

// NewToken makes a token of 256 random bits.
func NewToken() string {
	bits := make([]byte, 32)
	rand.Read(bits) // never fails: the program ends if the system has no random bits
	return "troupe_" + base64.RawURLEncoding.EncodeToString(bits)
}

// HashToken returns a hash that can be stored instead of a token. One round of SHA-256 without salt is enough for a
// token of NewToken, because 2^256 values cannot be tried. It is not enough for a token that a person chose.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Hashed reports whether the secret is the hash of a token. A hash itself is not accepted as a token.
func (t *Token) Hashed() bool { return strings.HasPrefix(t.Secret, hashPrefix) }

// digest is the SHA-256 of the token.
func (t *Token) digest() (sum [sha256.Size]byte, err error) {
	text, hashed := strings.CutPrefix(t.Secret, hashPrefix)
	if !hashed {
		return sha256.Sum256([]byte(t.Secret)), nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return sum, fmt.Errorf("sha256: must be followed by 64 hexadecimal digits, as `troupe token new` prints them")
	}
	return [sha256.Size]byte(raw), nil
}

// CheckName returns why a text cannot be a token's name, or nothing. The node's own names for other callers contain a
// colon, and tokens' names must not, so the two cannot be confused.
func CheckName(name string) string {
	switch {
	case name == "":
		return "needs a name of its own"
	case len(name) > nameMax:
		return fmt.Sprintf("the name may have %d bytes, and has %d", nameMax, len(name))
	case strings.Contains(name, ":"):
		return "the name may hold no colon"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "the name may hold no control characters"
	case slices.Contains(reserved, name):
		return fmt.Sprintf("the name %q is kept for who submits without a token; choose another", name)
	}
	return ""
}

// CheckTokens returns the problems of a list of tokens, by entry. It shows no secret.
func CheckTokens(tokens []Token) (problems []string) {
	if len(tokens) > tokensMax {
		return []string{fmt.Sprintf("there may be %d tokens, and are %d", tokensMax, len(tokens))}
	}
	certificates, names, secrets := map[string]bool{}, map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i := range tokens {
		t := &tokens[i]
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("entry %d (%s): ", i+1, clip(t.Name))+fmt.Sprintf(format, args...))
		}
		if t.Certificate != "" {
			if t.Secret != "" {
				bad("has a token and a certificate; keep one, and make another entry of the other")
			} else if err := checkCertificate(t.Certificate); err != nil {
				bad("%s", err)
			} else if certificates[t.Certificate] {
				bad("the certificate is another entry's already")
			}
			certificates[t.Certificate] = true
		}
		if why := CheckName(t.Name); why != "" {
			bad("%s", why)
		} else if names[t.Name] {
			bad("every token needs a name of its own, and another has this one")
		}
		for _, why := range checkScopes(t.Scopes) {
			bad("%s", why)
		}
		names[t.Name] = true
		if t.Certificate != "" {
			continue
		}
		sum, err := t.digest()
		switch {
		case err != nil:
			bad("%s", err)
		case len(t.Secret) < secretMin:
			bad("the token must have at least %d characters; `troupe token new` makes one", secretMin)
		case secrets[sum]:
			bad("the token is another entry's already")
		}
		secrets[sum] = true
	}
	return problems
}

// CheckCertificates returns the entries that name a client's certificate although the node requests none, so that they
// can never match. place is the place of the entries, for the message.
func CheckCertificates(tokens []Token, files TLSFiles, place string) (problems []string) {
	if files.ClientCAFile != "" {
		return nil
	}
	for i := range tokens {
		if tokens[i].Certificate != "" {
			problems = append(problems, fmt.Sprintf("entry %d (%s) of %s has certificate, and tls.client_ca_file is not set, so that no client"+
				" is asked for one: set tls.client_ca_file, or give the entry a token instead", i+1, clip(tokens[i].Name), place))
		}
	}
	return problems
}

// checkScopes returns the problems of a token's scopes.
func checkScopes(scopes []Scope) (problems []string) {
	all := lacking(Scopes())
	if len(scopes) == 0 {
		problems = append(problems, "has no scopes; give it some of "+all)
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			problems = append(problems, fmt.Sprintf("unknown scope %q; want %s", clip(string(s)), all))
		}
	}
	return problems
}
