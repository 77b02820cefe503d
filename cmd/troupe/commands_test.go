package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/roster"
)

// spoken is a command that a text names, up to where a shell would end it.
var (
	spoken = regexp.MustCompile("`(?:\\$ )?troupe ([^`|>#;&]+)")
	word   = regexp.MustCompile(`"[^"]*"|\S+`)
)

// Whatever says what to do names commands that exist: the rules of the alerts, the reasons of a wait, the codes of failures, the dead letters,
// and the pages.
func TestTextsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for _, r := range alerts.Rules() {
		texts["alert "+r.Key()] = r.Summary + r.Means + r.Do
	}
	for _, r := range roster.Reasons() {
		texts["reason "+r.String()] = r.Sentence() + r.Advice()
	}
	for _, f := range messages.Failures() {
		texts["code "+string(f.Code)] = f.Meaning + f.Do
	}
	for i, c := range bulk.LetterCases() {
		texts[fmt.Sprintf("dead letter %d", i)] = c.Means + c.WhatToDo
	}
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		texts[page] = string(text)
	}
	found := 0
	for where, text := range texts {
		for _, m := range spoken.FindAllStringSubmatch(text, -1) {
			found++
			require.NoError(t, exists(word.FindAllString(m[1], -1)), "%s names `troupe %s`", where, m[1])
		}
	}
	require.Greater(t, found, 100)
}

func TestCommandsThatDoNotExistAreUnknown(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"kill worker ID", "worker murder ID", "pools --colour", "drain a b"} {
		require.Error(t, exists(word.FindAllString(words, -1)), words)
	}
	for _, words := range []string{"worker kill ID", "worker", "pools -o json", "drain", "worker check -- python3 -m it", `mark "deploy 2"`, "list --status failed,abandoned --since 2h"} {
		require.NoError(t, exists(word.FindAllString(words, -1)), words)
	}
}

// exists says what of a command does not exist. A text may leave out its arguments and the values of its flags.
func exists(words []string) error {
	verb, rest, err := (&app{}).root().Find(words)
	if err != nil {
		return err
	}
	arguments := 0
	for i := 0; i < len(rest); i++ {
		if rest[i] == "--" { // what follows is a program
			return nil
		}
		if !strings.HasPrefix(rest[i], "-") {
			arguments++
			continue
		}
		name, _, valued := strings.Cut(strings.TrimLeft(rest[i], "-"), "=")
		flag := flagOf(verb, rest[i], name)
		if flag == nil {
			return fmt.Errorf("%s has no flag %s", verb.CommandPath(), rest[i])
		}
		if !valued && flag.NoOptDefVal == "" {
			i++ // its value
		}
	}
	switch {
	case arguments == 0:
		return nil
	case !verb.Runnable() || verb.HasSubCommands() && verb.Args == nil:
		return fmt.Errorf("%s has no verb %s", verb.CommandPath(), rest[0])
	}
	return verb.ValidateArgs(make([]string, arguments))
}

func flagOf(verb *cobra.Command, given, name string) *pflag.Flag {
	verb.InitDefaultHelpFlag()
	for _, flags := range []*pflag.FlagSet{verb.Flags(), verb.InheritedFlags()} {
		if strings.HasPrefix(given, "--") {
			if flag := flags.Lookup(name); flag != nil {
				return flag
			}
		} else if flag := flags.ShorthandLookup(name[:1]); flag != nil {
			return flag
		}
	}
	return nil
}
