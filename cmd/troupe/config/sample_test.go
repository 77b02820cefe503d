package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sampleHead = `# Every setting of a node, with its default. Copy what you change into a file of your own, and start the node with
#   troupe node --config FILE
# A line that begins with # is a setting that is empty unless you set it. docs/configuration.md says what each takes.

`

// sample is a configuration file with every key, at its default.
func sample() string {
	text, open := sampleHead, []string(nil)
	for _, k := range Defaults() {
		parts := strings.Split(k.Path, ".")
		sections, name := parts[:len(parts)-1], parts[len(parts)-1]
		common := 0
		for common < len(open) && common < len(sections) && open[common] == sections[common] {
			common++
		}
		for i := common; i < len(sections); i++ {
			if i == 0 {
				text += "\n"
			}
			text += strings.Repeat("  ", i) + sections[i] + ":\n"
		}
		open = sections
		indent, mark := strings.Repeat("  ", len(sections)), ""
		if k.Default == "" {
			mark = "# "
		}
		value := k.Default
		if _, list := k.value.Interface().([]string); list {
			value = "[" + strings.ReplaceAll(value, ",", ", ") + "]"
		}
		text += remark(k.Help, indent) + fmt.Sprintf("%s%s%s:%s\n", indent, mark, name, strings.TrimRight(" "+value, " "))
	}
	return text
}

// remark is a comment, in lines of at most 120 bytes or one word.
func remark(help, indent string) string {
	text, line := "", indent+"#"
	for word := range strings.FieldsSeq(help) {
		if len(line)+1+len(word) > 120 && line != indent+"#" {
			text, line = text+line+"\n", indent+"#"
		}
		line += " " + word
	}
	return text + line + "\n"
}

// TestTheSampleIsCurrentAndLoads: docs/troupe.sample.yaml has every key at its default, and a node starts with it as without it.
func TestTheSampleIsCurrentAndLoads(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "troupe.sample.yaml")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(sample()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, sample() == string(text), "run go test ./cmd/troupe/config -update")
	for _, k := range Defaults() {
		name := k.Path[strings.LastIndex(k.Path, ".")+1:]
		require.Contains(t, string(text), name+":", k.Path)
	}
	with, without := loaded(t, Sources{File: path, Environ: home}), loaded(t, Sources{Environ: home})
	require.Empty(t, with.Warnings)
	require.Equal(t, without.Config, with.Config)
	set := 0
	for _, k := range with.Keys {
		if strings.HasPrefix(k.Source, "file ") {
			set++
		}
	}
	require.Greater(t, set, 50, "the file is what sets them")
}
