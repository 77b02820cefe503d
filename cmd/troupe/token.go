package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
)

// tokenVerbs make tokens.
type tokenVerbs struct{ *app }

func (m tokenVerbs) command() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make tokens for callers of a node", Args: exactly()}
	cmd.AddCommand(m.make())
	return cmd
}

func (m tokenVerbs) make() *cobra.Command {
	var name, expires string
	var scopes []string
	cmd := &cobra.Command{
		Use: "new --name NAME --scope SCOPE", Short: "Make a token, and its line for the node's configuration", Args: exactly(),
		Long: "Make a token of 256 random bits. It is printed once and stored nowhere. The line under it has the token's SHA-256, from which\n" +
			"nobody can compute the token. Put that line into the node's tokens_file, which the node reads again by itself, or below tokens in\n" +
			"its configuration. This verb calls no node.",
		Example: "troupe token new --name ci --scope submit --expires 90d",
		RunE: func(*cobra.Command, []string) error {
			made, err := newToken(name, scopes, expires, time.Now())
			if err != nil {
				return err
			}
			return m.print(made)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of its caller, as in created_by, in events and in logs")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what it allows: read, submit, operate or admin. May be repeated")
	cmd.Flags().StringVar(&expires, "expires", "", "when it expires: a time such as 2030-01-31T00:00:00Z, or a duration from now, as 90d or 12h; left out: never")
	return cmd
}

// newToken makes a token, whose Secret is in clear.
func newToken(name string, scopes []string, expires string, now time.Time) (api.Token, error) {
	t := api.Token{Name: name, Secret: api.NewToken()}
	for _, s := range scopes {
		t.Scopes = append(t.Scopes, api.Scope(s))
	}
	if name == "" {
		return t, usagef("--name is missing: whom is the token for?")
	}
	if len(scopes) == 0 {
		return t, usagef("--scope is missing: give --scope read, submit, operate or admin")
	}
	if expires != "" {
		at, err := parseEnd(expires, now)
		if err != nil {
			return t, err
		}
		t.Expires = at
	}
	if problems := api.CheckTokens([]api.Token{t}); len(problems) > 0 {
		return t, usagef("%s", strings.Join(problems, "; "))
	}
	return t, nil
}

// parseEnd reads a moment that is still to come, or how long it is until then.
func parseEnd(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		days, isDays := strings.CutSuffix(text, "d")
		length, failed := time.ParseDuration(text)
		if n, bad := strconv.Atoi(days); isDays && bad == nil && n <= 36500 {
			length, failed = time.Duration(n)*24*time.Hour, nil
		}
		if failed != nil {
			return at, usagef("--expires %q must be a time such as 2030-01-31T00:00:00Z, or a time from now such as 90d or 12h", text)
		}
		at = now.Add(length)
	}
	if !at.After(now) {
		return at, usagef("--expires %q is over already", text)
	}
	return at.UTC().Truncate(time.Second), nil
}

func (m tokenVerbs) print(t api.Token) error {
	line := tokenLine(t)
	if m.output == "json" {
		return m.printJSON(struct {
			Name    string      `json:"name"`
			Scopes  []api.Scope `json:"scopes"`
			Token   string      `json:"token"`
			Hash    string      `json:"hash"`
			Expires *time.Time  `json:"expires,omitempty"`
			Line    string      `json:"line"`
		}{t.Name, t.Scopes, t.Secret, api.HashToken(t.Secret), orNever(t.Expires), line})
	}
	_, err := fmt.Fprintf(m.out, "The token, which is not shown again; callers send it, or set TROUPE_TOKEN to it:\n\n%s\n\n"+
		"The line for the node's tokens_file, or for the list below tokens:\n\n%s\n", t.Secret, line)
	return err
}

func orNever(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// tokenLine is the entry by which a node knows the token, as YAML.
func tokenLine(t api.Token) string {
	var scopes []string
	for _, s := range t.Scopes {
		if !slices.Contains(scopes, string(s)) {
			scopes = append(scopes, string(s))
		}
	}
	line := fmt.Sprintf("- {name: %s, scopes: [%s], token: %q", strconv.Quote(t.Name), strings.Join(scopes, ", "), api.HashToken(t.Secret))
	if !t.Expires.IsZero() {
		line += fmt.Sprintf(", expires: %q", t.Expires.Format(time.RFC3339))
	}
	return line + "}"
}
