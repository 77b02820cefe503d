package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/api"
)

// ReadTokens reads a file of tokens: a YAML list, which is not empty. It shows no secret in its error.
func ReadTokens(path string) ([]api.Token, error) {
	list, err := readTokens(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens, problems := APITokens(list)
	if problems = append(problems, api.CheckTokens(tokens)...); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", path, strings.Join(problems, "; "))
	}
	return tokens, nil
}

func readTokens(path string) ([]Token, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("every user may write to it (mode %04o), and so give out tokens: run `chmod o-w` on it", info.Mode().Perm())
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("holds no tokens; `troupe token new` prints a line for it")
	case err != nil:
		return nil, errors.New("is not YAML; it must be a list of tokens, one a line, as `troupe token new` prints them")
	case doc.Content[0].Kind != yaml.SequenceNode:
		return nil, errors.New("must be a list of tokens, one a line, as `troupe token new` prints them")
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document; keep one")
	}
	f := &fileReader{name: "line"}
	list := f.tokenList("tokens_file", doc.Content[0])
	if len(f.problems) > 0 {
		return nil, errors.New(strings.Join(f.problems, "; "))
	}
	if len(list) == 0 {
		return nil, errors.New("holds no tokens; `troupe token new` prints a line for it")
	}
	for i := range list {
		if list[i].TokenEnv != "" {
			return nil, fmt.Errorf("entry %d (%s): token_env can stand below tokens alone; give the token's hash here", i+1, list[i].Name)
		}
	}
	return list, nil
}

// APITokens are the tokens as the API takes them, and what is wrong with their times.
func APITokens(list []Token) (tokens []api.Token, problems []string) {
	for i, t := range list {
		made := api.Token{Name: t.Name, Secret: t.Secret, Certificate: t.Certificate}
		for _, s := range t.Scopes {
			made.Scopes = append(made.Scopes, api.Scope(s))
		}
		if t.Expires != "" {
			at, err := time.Parse(time.RFC3339, t.Expires)
			if err != nil {
				problems = append(problems, fmt.Sprintf("entry %d (%s): expires must be a time such as 2030-01-31T00:00:00Z", i+1, t.Name))
			}
			made.Expires = at
		}
		tokens = append(tokens, made)
	}
	return tokens, problems
}

// exposedTokens judges the permissions of the tokens' file, where a token stands in it that is not hashed.
func (l *Loaded) exposedTokens() string {
	info, err := os.Stat(l.TokensFile)
	if l.TokensFile == "" || err != nil || info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	tokens, err := ReadTokens(l.TokensFile)
	if err != nil {
		return ""
	}
	for i := range tokens {
		if tokens[i].Secret != "" && !tokens[i].Hashed() {
			return fmt.Sprintf("%s holds tokens and every user may read it (mode %04o): run `chmod o-rwx` on it", l.TokensFile, info.Mode().Perm())
		}
	}
	return ""
}
