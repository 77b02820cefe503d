package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// firstScreen returns the commands in the fenced blocks that stand before the first section of a Markdown text.
func firstScreen(text string) []string {
	var commands []string
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced && line != "" && !strings.HasPrefix(line, "#"):
			command, _, _ := strings.Cut(line, " #")
			commands = append(commands, strings.TrimSpace(command))
		case !fenced && strings.HasPrefix(line, "## "):
			return commands
		}
	}
	return commands
}

// The first screen promises that two commands are enough. Both must be targets of the Makefile.
func TestTheReadmesFirstScreenHasTwoCommands(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	commands := firstScreen(string(readme))
	require.Equal(t, []string{"make run", "make test"}, commands)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	for _, command := range commands {
		target := strings.TrimPrefix(command, "make ")
		require.Contains(t, "\n"+string(makefile), "\n"+target+":", "the Makefile has no target %s", target)
	}
}

func TestFirstScreenReadsOnlyFencedLinesBeforeASection(t *testing.T) {
	t.Parallel()
	text := "# T\nprose `make x`\n```sh\nmake run   # start\n# a comment\n```\n```\nmake test\n```\n## More\n```\nmake bench\n```\n"
	require.Equal(t, []string{"make run", "make test"}, firstScreen(text))
}
